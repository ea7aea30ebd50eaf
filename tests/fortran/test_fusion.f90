! test_fusion.f90: fused tensors with arrays of both kinds.
module fusion_of_real32
  use, intrinsic :: iso_c_binding, only: c_ptr
  use, intrinsic :: iso_fortran_env, only: int8, int64, real32, real64
  use checks
  use weir
  implicit none
  private
  public :: check_fusion

  integer, parameter :: wp = real32, other_kind = real64, fusion_type = WEIR_FLOAT32
  include 'fusion_checks.inc'
end module

module fusion_of_real64
  use, intrinsic :: iso_c_binding, only: c_ptr
  use, intrinsic :: iso_fortran_env, only: int8, int64, real32, real64
  use checks
  use weir
  implicit none
  private
  public :: check_fusion

  integer, parameter :: wp = real64, other_kind = real32, fusion_type = WEIR_FLOAT64
  include 'fusion_checks.inc'
end module
