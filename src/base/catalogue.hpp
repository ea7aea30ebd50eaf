// catalogue.hpp: WEIR_IN_CATALOGUE(row) in a list of rows: the row is in catalogue/, and there unless the build leaves that out.
#pragma once

#ifdef WEIR_CATALOGUE
#define WEIR_IN_CATALOGUE(row) row
#else
#define WEIR_IN_CATALOGUE(row)
#endif
