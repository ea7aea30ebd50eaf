! test_plans.f90: plans with arrays of both kinds.
module plans_of_real32
  use, intrinsic :: ieee_arithmetic, only: ieee_quiet_nan, ieee_value
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_int32_t, c_loc, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int8, int64, real32, real64
  use checks
  use weir
  implicit none
  private
  public :: check_plans

  integer, parameter :: wp = real32, other = real64, plan_type = WEIR_FLOAT32
  real(real64), parameter :: tolerance = 1e-6_real64
  include 'plan_checks.inc'
end module

module plans_of_real64
  use, intrinsic :: ieee_arithmetic, only: ieee_quiet_nan, ieee_value
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_int32_t, c_loc, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int8, int64, real32, real64
  use checks
  use weir
  implicit none
  private
  public :: check_plans

  integer, parameter :: wp = real64, other = real32, plan_type = WEIR_FLOAT64
  real(real64), parameter :: tolerance = 1e-14_real64
  include 'plan_checks.inc'
end module
