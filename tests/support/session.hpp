// session.hpp: Catch2's command line, compiled once for all test programs, because it takes longer to compile than any test.
#pragma once

namespace weir::test {

/// Runs this program's tests as the arguments say. Returns the number of failures, as an exit status.
int run_session(int argc, char** argv);

}  // namespace weir::test
