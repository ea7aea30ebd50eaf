! no_target.f90: must not compile: the array that a checkpoint keeps is neither a target nor a pointer.
subroutine no_target(checkpoint)
  use weir
  type(weir_checkpoint), intent(inout) :: checkpoint
  real :: weights(4)

  call checkpoint%add_array('weights', weights, WEIR_DISTRIBUTION_REPLICATED)
end subroutine
