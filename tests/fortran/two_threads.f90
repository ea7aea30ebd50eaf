! two_threads.f90: a second thread on one communicator is refused while the first is in a call. It calls when the first call logs a
! message. WEIR_LOG must be info.
module second_thread
  use omp_lib, only: omp_get_thread_num
  use weir
  implicit none
  type(weir_communicator) :: comm
  integer :: refused = 0, accepted = 0

contains

  subroutine call_from_a_second_thread(level, text)
    integer, intent(in) :: level
    character(len=*), intent(in) :: text
    integer :: ranks, ierr

    !$omp parallel num_threads(2) private(ranks, ierr)
    if (omp_get_thread_num() == 1) then
      ranks = comm%size(ierr)
      if (ierr == WEIR_ERR_BUSY .and. index(weir_last_error(), 'another call on this communicator is under way') > 0) then
        refused = refused + 1
      else
        print '(a, i0, 2a)', 'not refused at level ', level, ': ', text
        accepted = accepted + 1
      end if
    end if
    !$omp end parallel
  end subroutine

end module

program two_threads
  use second_thread
  use weir
  implicit none
  type(weir_allreduce_plan) :: plan
  real :: gradient(1000)

  call weir_init()
  call comm%create_world()
  call weir_set_log_procedure(call_from_a_second_thread)
  call plan%create(comm, weir_allreduce_config(count=size(gradient)))
  call weir_set_log_procedure()
  if (refused == 0 .or. accepted > 0) error stop 'a second thread was not refused'
  gradient = 1
  call plan%run(gradient)
  print '(a)', 'two_threads passed'
  call plan%destroy()
  call comm%destroy()
  call weir_finalize()
end program
