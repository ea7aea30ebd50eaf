// session.hpp: Catch2's command line, compiled once for all mains of tests: it takes longer to compile than any test.
#pragma once

namespace weir::test {

/// Runs the tests of this program as the arguments say. The number of failures, as an exit status.
int run_session(int argc, char** argv);

}  // namespace weir::test
