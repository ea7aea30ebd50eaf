#include "support/session.hpp"

int main(int argc, char** argv) { return weir::test::run_session(argc, argv); }
