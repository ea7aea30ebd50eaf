// A program for its precompiled headers, which all test programs share.
int main() {}
