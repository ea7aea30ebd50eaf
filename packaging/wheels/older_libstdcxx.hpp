// build.sh includes this header first in every file. Libraries that GCC 12 has built then also load with the libstdc++ of GCC 11, for
// example on RHEL 9.
#pragma once

// Chooses the version of this function before GLIBCXX_3.4.30. libstdc++ still has it, and it does the same.
__asm__(
    ".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE,"
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
