// stub_library.cpp: a library that is only loaded.
extern "C" int weir_test_stub() { return 1; }
