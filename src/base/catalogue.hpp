// catalogue.hpp: WEIR_IN_CATALOGUE(row) in a list of rows. The row is in catalogue/; a build without that leaves it out.
#pragma once

#ifdef WEIR_CATALOGUE
#define WEIR_IN_CATALOGUE(row) row
/// Ends a list of known names.
#define WEIR_NAMES_LEFT_OUT ""
#else
#define WEIR_IN_CATALOGUE(row)
#define WEIR_NAMES_LEFT_OUT " (this build is without the catalogue)"
#endif
