/* weir/status.h: the status codes of Weir, one list from which enumerators, names and texts are made. Plain C. */
#ifndef WEIR_STATUS_H
#define WEIR_STATUS_H

/* X(NAME, value, text). Values never change once released. */
#define WEIR_STATUS_LIST(X)                                             \
  X(OK, 0, "success")                                                   \
  X(ERR_ARGUMENT, 1, "an argument is wrong")                            \
  X(ERR_MISMATCH, 2, "ranks disagree about a plan")                     \
  X(ERR_BUSY, 3, "the object is in use")                                \
  X(ERR_STATE, 4, "the call does not fit the state of the object")      \
  X(ERR_NON_FINITE, 5, "the gradient holds NaN or infinity")            \
  X(ERR_TIMEOUT, 6, "a peer did not answer in time")                    \
  X(ERR_TRANSPORT, 7, "the transport failed")                           \
  X(ERR_MEMORY, 8, "out of memory")                                     \
  X(ERR_SETTING, 9, "a WEIR_* setting has a value that makes no sense") \
  X(ERR_UNSUPPORTED, 10, "this build of Weir lacks the feature")        \
  X(ERR_INTERNAL, 11, "an internal assumption of Weir failed")          \
  X(ERR_DEVICE, 12, "the GPU or its driver failed")                     \
  X(ERR_FILE, 13, "a file cannot be written or read, or is damaged")

typedef enum weir_status {
#define WEIR_STATUS_ENUMERATOR(name, value, text) WEIR_##name = value,
  WEIR_STATUS_LIST(WEIR_STATUS_ENUMERATOR)
#undef WEIR_STATUS_ENUMERATOR
} weir_status;

#endif
