#include "support/session.hpp"

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

int weir::test::run_session(int argc, char** argv) { return Catch::Session().run(argc, argv); }
