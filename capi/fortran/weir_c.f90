! weir_c.f90: the C interface as Fortran sees it, and its structs to those of weir_types and back. Not for users.
! Made by capi/interface/generate.py from interface.toml and the headers in include/weir: change those.
module weir_c
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_funptr, c_int, c_int32_t, c_int64_t, c_null_ptr, c_ptr, c_size_t, &
    c_sizeof
  use weir_text, only: c_text, text_of
  use weir_types
  implicit none
  private
  public :: c_allreduce_config, c_statistics, c_algorithm_info, c_compressor_info, c_encoded_info, c_setting_info, &
    c_embedding_config, c_embedding_statistics, c_exchange_info, c_checkpoint_config, c_checkpoint_statistics, c_fused_tensor, &
    c_fusion_config, c_fusion_statistics, c_operator_part, c_operator_config, c_operator_statistics, c_optimized_layer, &
    c_optimizer_config, c_optimizer_statistics, c_sparse_adam_config, c_sample_cache_config, c_sample_cache_statistics, &
    c_sample_loader_config, c_sparse_result, c_residual, c_version, c_status_string, c_last_error, c_algorithm_name, c_algorithm, &
    c_compressor_name, c_compressor, c_setting, c_level_name, c_set_log_function, c_init, c_finalize, c_mpi_family, c_mpi_library, &
    c_comm_create_world, c_comm_create_fortran, c_comm_rank, c_comm_size, c_comm_topology, c_comm_level, c_comm_group, &
    c_comm_nearest_gpu, c_comm_stragglers, c_comm_broadcast, c_comm_allgather, c_comm_dump, c_comm_refuse, c_comm_destroy, &
    c_plan_create, c_plan_destroy, c_plan_run, c_plan_run_sparse, c_plan_start, c_plan_start_sparse, c_plan_run_on_stream, &
    c_plan_run_sparse_on_stream, c_plan_start_on_stream, c_plan_start_sparse_on_stream, c_plan_test, c_plan_wait, c_plan_wait_for, &
    c_plan_sparse_result, c_plan_get_statistics, c_plan_counter, c_plan_residual, c_plan_get_config, c_plan_memory_bytes, &
    c_plan_state_bytes, c_plan_save_state, c_plan_restore_state, c_plan_encoded_bytes, c_plan_encode, c_encoded_inspect, c_decode, &
    c_plan_explanation, c_plan_reset, c_plan_scale_residual, c_schedule_create, c_schedule_destroy, c_schedule_priority, &
    c_schedule_started, c_schedule_test, c_schedule_wait, c_schedule_wait_all, c_schedule_pending, c_exchange_name, c_exchange, &
    c_embedding_create, c_embedding_destroy, c_embedding_lookup_int32, c_embedding_lookup_int64, c_embedding_lookup_test, &
    c_embedding_lookup_wait, c_embedding_lookup_wait_for, c_embedding_prefetch_int32, c_embedding_prefetch_int64, &
    c_embedding_prefetch_test, c_embedding_prefetch_wait, c_embedding_prefetch_wait_for, c_embedding_update, &
    c_embedding_update_test, c_embedding_update_wait, c_embedding_update_wait_for, c_embedding_lookup_int32_on_stream, &
    c_embedding_lookup_int64_on_stream, c_embedding_prefetch_int32_on_stream, c_embedding_prefetch_int64_on_stream, &
    c_embedding_update_on_stream, c_embedding_set_learning_rate, c_embedding_export_rows, c_embedding_import_rows, &
    c_embedding_get_config, c_embedding_memory_bytes, c_embedding_state_bytes, c_embedding_save_state, c_embedding_restore_state, &
    c_embedding_get_statistics, c_checkpoint_create, c_checkpoint_destroy, c_checkpoint_add_plan, c_checkpoint_add_embedding, &
    c_checkpoint_add_fused, c_checkpoint_add_optimizer, c_checkpoint_add_sparse_adam, c_checkpoint_add_schedule, &
    c_checkpoint_add_array, c_checkpoint_set_integer, c_checkpoint_set_real, c_checkpoint_set_text, c_checkpoint_get_integer, &
    c_checkpoint_get_real, c_checkpoint_get_text, c_checkpoint_save, c_checkpoint_test, c_checkpoint_wait, c_checkpoint_wait_for, &
    c_checkpoint_restore, c_checkpoint_steps, c_checkpoint_catch_signal, c_checkpoint_stop_requested, c_checkpoint_get_statistics, &
    c_checkpoint_get_config, c_fused_create, c_fused_destroy, c_fused_ready, c_fused_skip, c_fused_progress, c_fused_test, &
    c_fused_wait, c_fused_wait_for, c_fused_wait_all, c_fused_find_tensor, c_fused_buffer_of, c_fused_residual, &
    c_fused_get_statistics, c_fused_get_config, c_fused_explanation, c_fused_memory_bytes, c_fused_state_bytes, &
    c_fused_save_state, c_fused_restore_state, c_fused_reset, c_fused_scale_residuals, c_operator_create, c_operator_destroy, &
    c_operator_run, c_operator_start, c_operator_refuse, c_operator_test, c_operator_wait, c_operator_wait_for, c_operator_bytes, &
    c_operator_offset, c_operator_result_bytes, c_operator_works_on, c_operator_get_statistics, c_operator_get_config, &
    c_operator_explanation, c_operator_memory_bytes, c_optimizer_create, c_optimizer_destroy, c_optimizer_step, &
    c_optimizer_step_on_stream, c_optimizer_refuse, c_optimizer_rates, c_optimizer_get_statistics, c_optimizer_get_config, &
    c_optimizer_explanation, c_optimizer_memory_bytes, c_optimizer_state_bytes, c_optimizer_save_state, c_optimizer_restore_state, &
    c_optimizer_reset, c_sparse_adam_create, c_sparse_adam_destroy, c_sparse_adam_step, c_sparse_adam_step_part, &
    c_sparse_adam_steps, c_sparse_adam_get_config, c_sparse_adam_memory_bytes, c_sparse_adam_state_bytes, &
    c_sparse_adam_save_state, c_sparse_adam_restore_state, c_sparse_adam_reset, allreduce_config_texts, embedding_config_texts, &
    checkpoint_config_texts, fused_tensor_texts, fusion_config_texts, operator_config_texts, optimized_layer_texts, &
    optimizer_config_texts, sparse_adam_config_texts, sample_cache_config_texts, to_c, from_c

  type, bind(C) :: c_allreduce_config
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: count = 0
    integer(c_int64_t) :: k = 0
    real(c_double) :: density = 0
    type(c_ptr) :: threshold = c_null_ptr
    integer(c_int64_t) :: dense_iterations = 0
    integer(c_int64_t) :: warmup_iterations = 0
    type(c_ptr) :: algorithm = c_null_ptr
    type(c_ptr) :: name = c_null_ptr
    integer(c_int32_t) :: type = 0
    integer(c_int32_t) :: non_finite = 0
    integer(c_int32_t) :: priority = 0
    integer(c_int32_t) :: error_feedback = 0
    integer(c_int32_t) :: average = 0
    integer(c_int32_t) :: wire_format = 0
    integer(c_int32_t) :: wire_values = 0
    integer(c_int32_t) :: memory = 0
    integer(c_int32_t) :: seed = 0
    integer(c_int32_t) :: threads = 0
    integer(c_int64_t) :: trial_iterations = 0
    type(c_ptr) :: compressor = c_null_ptr
    type(c_ptr) :: compressor_parameters = c_null_ptr
    real(c_double) :: feedback_decay = 0
    real(c_double) :: feedback_gain = 0
    type(c_ptr) :: algorithm_parameters = c_null_ptr
    type(c_ptr) :: threshold_parameters = c_null_ptr
  end type

  type, bind(C) :: c_statistics
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: iteration = 0
    integer(c_int64_t) :: k = 0
    integer(c_int64_t) :: selected_local = 0
    integer(c_int64_t) :: selected_global = 0
    integer(c_int64_t) :: payload_bytes_sent = 0
    integer(c_int64_t) :: payload_bytes_received = 0
    integer(c_int64_t) :: control_bytes_sent = 0
    integer(c_int64_t) :: control_bytes_received = 0
    integer(c_int64_t) :: bytes_sent(7) = 0
    integer(c_int64_t) :: bytes_received(7) = 0
    integer(c_int64_t) :: messages_sent(7) = 0
    integer(c_int64_t) :: messages_received(7) = 0
    real(c_double) :: seconds_select = 0
    real(c_double) :: seconds_exchange = 0
    real(c_double) :: seconds_apply = 0
    real(c_double) :: seconds_total = 0
    real(c_double) :: seconds_in_node = 0
    real(c_double) :: seconds_waited = 0
    integer(c_int32_t) :: skipped = 0
    integer(c_int32_t) :: reserved = 0
  end type

  type, bind(C) :: c_algorithm_info
    integer(c_size_t) :: struct_size = 0
    type(c_ptr) :: name = c_null_ptr
    type(c_ptr) :: description = c_null_ptr
    integer(c_int32_t) :: sparse = 0
    integer(c_int32_t) :: host_memory = 0
    integer(c_int32_t) :: cuda_memory = 0
    integer(c_int32_t) :: packed = 0
    type(c_ptr) :: parameters = c_null_ptr
    type(c_ptr) :: counters = c_null_ptr
  end type

  type, bind(C) :: c_compressor_info
    integer(c_size_t) :: struct_size = 0
    type(c_ptr) :: name = c_null_ptr
    type(c_ptr) :: description = c_null_ptr
    type(c_ptr) :: source = c_null_ptr
    type(c_ptr) :: carriage = c_null_ptr
    type(c_ptr) :: parameters = c_null_ptr
    integer(c_int32_t) :: random = 0
    integer(c_int32_t) :: feedback = 0
  end type

  type, bind(C) :: c_encoded_info
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: version = 0
    integer(c_int64_t) :: count = 0
    integer(c_int64_t) :: entries = 0
    integer(c_int64_t) :: bytes = 0
    type(c_ptr) :: compressor = c_null_ptr
    type(c_ptr) :: parameters = c_null_ptr
  end type

  type, bind(C) :: c_setting_info
    integer(c_size_t) :: struct_size = 0
    type(c_ptr) :: name = c_null_ptr
    type(c_ptr) :: value = c_null_ptr
    type(c_ptr) :: origin = c_null_ptr
    type(c_ptr) :: description = c_null_ptr
  end type

  type, bind(C) :: c_embedding_config
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: rows = 0
    integer(c_int64_t) :: width = 0
    integer(c_int64_t) :: largest_batch = 0
    integer(c_int64_t) :: seed = 0
    real(c_double) :: learning_rate = 0
    real(c_double) :: beta1 = 0
    real(c_double) :: beta2 = 0
    real(c_double) :: epsilon = 0
    real(c_double) :: initial_range = 0
    type(c_ptr) :: exchange = c_null_ptr
    type(c_ptr) :: name = c_null_ptr
    integer(c_int32_t) :: optimizer = 0
    integer(c_int32_t) :: wire_values = 0
    integer(c_int32_t) :: routing = 0
    integer(c_int32_t) :: average = 0
    integer(c_int32_t) :: priority = 0
    integer(c_int32_t) :: delayed_priority = 0
    integer(c_int32_t) :: memory = 0
    integer(c_int32_t) :: reserved = 0
  end type

  type, bind(C) :: c_embedding_statistics
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: tokens = 0
    integer(c_int64_t) :: distinct_rows = 0
    integer(c_int64_t) :: prior_rows = 0
    integer(c_int64_t) :: updated_rows = 0
    integer(c_int64_t) :: id_bytes_sent = 0
    integer(c_int64_t) :: lookup_bytes_sent = 0
    integer(c_int64_t) :: gradient_bytes_sent = 0
    integer(c_int64_t) :: control_bytes_sent = 0
    integer(c_int64_t) :: bytes_sent(7) = 0
    real(c_double) :: seconds_lookup = 0
    real(c_double) :: seconds_coalesce = 0
    real(c_double) :: seconds_prior = 0
    real(c_double) :: seconds_update = 0
    integer(c_int32_t) :: prefetched = 0
    integer(c_int32_t) :: by_node = 0
  end type

  type, bind(C) :: c_exchange_info
    integer(c_size_t) :: struct_size = 0
    type(c_ptr) :: name = c_null_ptr
    type(c_ptr) :: description = c_null_ptr
  end type

  type, bind(C) :: c_checkpoint_config
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: keep = 0
    integer(c_int64_t) :: compression = 0
    type(c_ptr) :: folder = c_null_ptr
    type(c_ptr) :: run = c_null_ptr
    type(c_ptr) :: name = c_null_ptr
    integer(c_int32_t) :: strict = 0
    integer(c_int32_t) :: reserved = 0
  end type

  type, bind(C) :: c_checkpoint_statistics
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: step = 0
    integer(c_int64_t) :: ranks = 0
    integer(c_int64_t) :: snapshot_bytes = 0
    integer(c_int64_t) :: bytes_written = 0
    integer(c_int64_t) :: bytes_read = 0
    real(c_double) :: seconds_snapshot = 0
    real(c_double) :: seconds_save = 0
    real(c_double) :: seconds_restore = 0
  end type

  type, bind(C) :: c_fused_tensor
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: count = 0
    integer(c_int64_t) :: k = 0
    real(c_double) :: density = 0
    type(c_ptr) :: name = c_null_ptr
    integer(c_int32_t) :: dense = 0
    integer(c_int32_t) :: optional = 0
  end type

  type, bind(C) :: c_fusion_config
    integer(c_size_t) :: struct_size = 0
    real(c_double) :: density = 0
    integer(c_int64_t) :: buffer_bytes = 0
    type(c_ptr) :: threshold = c_null_ptr
    type(c_ptr) :: algorithm = c_null_ptr
    type(c_ptr) :: algorithm_parameters = c_null_ptr
    type(c_ptr) :: name = c_null_ptr
    integer(c_int32_t) :: scheme = 0
    integer(c_int32_t) :: type = 0
    integer(c_int32_t) :: wire_format = 0
    integer(c_int32_t) :: wire_values = 0
    integer(c_int32_t) :: non_finite = 0
    integer(c_int32_t) :: error_feedback = 0
    integer(c_int32_t) :: average = 0
    integer(c_int32_t) :: priority = 0
    type(c_ptr) :: threshold_parameters = c_null_ptr
  end type

  type, bind(C) :: c_fusion_statistics
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: iteration = 0
    integer(c_int64_t) :: exchanges = 0
    integer(c_int64_t) :: tensors_skipped = 0
    integer(c_int64_t) :: tensors_missing = 0
    integer(c_int64_t) :: buffers_skipped = 0
    integer(c_int64_t) :: selected_local = 0
    integer(c_int64_t) :: selected_global = 0
    integer(c_int64_t) :: payload_bytes_sent = 0
    integer(c_int64_t) :: payload_bytes_received = 0
    integer(c_int64_t) :: control_bytes_sent = 0
    integer(c_int64_t) :: control_bytes_received = 0
    integer(c_int64_t) :: bytes_sent(7) = 0
    integer(c_int64_t) :: bytes_received(7) = 0
    integer(c_int64_t) :: messages_sent(7) = 0
    integer(c_int64_t) :: messages_received(7) = 0
    real(c_double) :: seconds_select = 0
    real(c_double) :: seconds_exchange = 0
    real(c_double) :: seconds_backward = 0
    real(c_double) :: seconds_waited = 0
    real(c_double) :: seconds_total = 0
    integer(c_int64_t) :: regroupings = 0
    integer(c_int32_t) :: settled = 0
    integer(c_int32_t) :: reserved = 0
  end type

  type, bind(C) :: c_operator_part
    integer(c_size_t) :: struct_size = 0
    real(c_double) :: seconds = 0
    integer(c_int64_t) :: result_bytes = 0
  end type

  type, bind(C) :: c_operator_config
    integer(c_size_t) :: struct_size = 0
    type(c_ptr) :: name = c_null_ptr
    integer(c_int32_t) :: division = 0
    integer(c_int32_t) :: variable = 0
    integer(c_int32_t) :: priority = 0
    integer(c_int32_t) :: reserved = 0
  end type

  type, bind(C) :: c_operator_statistics
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: runs = 0
    real(c_double) :: seconds_work = 0
    real(c_double) :: seconds_gather = 0
    integer(c_int64_t) :: bytes_sent(7) = 0
    integer(c_int64_t) :: bytes_received(7) = 0
    integer(c_int64_t) :: messages_sent(7) = 0
    integer(c_int64_t) :: messages_received(7) = 0
  end type

  type, bind(C) :: c_optimized_layer
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: count = 0
    type(c_ptr) :: name = c_null_ptr
    integer(c_int32_t) :: excluded = 0
    integer(c_int32_t) :: reserved = 0
  end type

  type, bind(C) :: c_optimizer_config
    integer(c_size_t) :: struct_size = 0
    real(c_double) :: momentum = 0
    real(c_double) :: weight_decay = 0
    real(c_double) :: trust_coefficient = 0
    real(c_double) :: largest_rate = 0
    real(c_double) :: beta1 = 0
    real(c_double) :: beta2 = 0
    real(c_double) :: epsilon = 0
    type(c_ptr) :: name = c_null_ptr
    integer(c_int32_t) :: rule = 0
    integer(c_int32_t) :: norms = 0
    integer(c_int32_t) :: update = 0
    integer(c_int32_t) :: priority = 0
    integer(c_int32_t) :: type = 0
    integer(c_int32_t) :: memory = 0
  end type

  type, bind(C) :: c_optimizer_statistics
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: steps = 0
    real(c_double) :: seconds_norms = 0
    real(c_double) :: seconds_update = 0
    real(c_double) :: seconds_gather = 0
  end type

  type, bind(C) :: c_sparse_adam_config
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: count = 0
    real(c_double) :: beta1 = 0
    real(c_double) :: beta2 = 0
    real(c_double) :: epsilon = 0
    type(c_ptr) :: name = c_null_ptr
    integer(c_int32_t) :: exact = 0
    integer(c_int32_t) :: reserved = 0
  end type

  type, bind(C) :: c_sample_cache_config
    integer(c_size_t) :: struct_size = 0
    type(c_ptr) :: folder = c_null_ptr
    integer(c_int64_t) :: folder_bytes = 0
    integer(c_int64_t) :: memory_bytes = 0
    integer(c_int64_t) :: largest_batch = 0
    integer(c_int32_t) :: in_flight = 0
    integer(c_int32_t) :: pack_samples = 0
    integer(c_int32_t) :: threads = 0
    integer(c_int32_t) :: on_error = 0
    integer(c_int32_t) :: retries = 0
    integer(c_int32_t) :: priority = 0
    type(c_ptr) :: name = c_null_ptr
  end type

  type, bind(C) :: c_sample_cache_statistics
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: batches = 0
    integer(c_int64_t) :: asked = 0
    integer(c_int64_t) :: from_node = 0
    integer(c_int64_t) :: from_ranks = 0
    integer(c_int64_t) :: served = 0
    integer(c_int64_t) :: kept = 0
    integer(c_int64_t) :: decoded = 0
    integer(c_int64_t) :: from_folder = 0
    integer(c_int64_t) :: from_store = 0
    integer(c_int64_t) :: folder_bytes_read = 0
    integer(c_int64_t) :: store_bytes_read = 0
    integer(c_int64_t) :: damaged = 0
    integer(c_int64_t) :: retried = 0
    integer(c_int64_t) :: skipped = 0
    real(c_double) :: seconds_store = 0
    real(c_double) :: seconds_folder = 0
    real(c_double) :: seconds_decode = 0
    real(c_double) :: seconds_waited = 0
    integer(c_int64_t) :: bytes_sent(7) = 0
    integer(c_int64_t) :: bytes_received(7) = 0
  end type

  type, bind(C) :: c_sample_loader_config
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: batch = 0
    integer(c_int64_t) :: seed = 0
    real(c_double) :: exchanged_share = 0
    integer(c_int32_t) :: shuffle = 0
    integer(c_int32_t) :: progress = 0
  end type

  type, bind(C) :: c_sparse_result
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: count = 0
    type(c_ptr) :: indices = c_null_ptr
    type(c_ptr) :: values = c_null_ptr
  end type

  type, bind(C) :: c_residual
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: begin = 0
    integer(c_int64_t) :: count = 0
    type(c_ptr) :: values = c_null_ptr
  end type

  ! How many texts to_c() wants.
  integer, parameter :: allreduce_config_texts = 7
  integer, parameter :: embedding_config_texts = 2
  integer, parameter :: checkpoint_config_texts = 3
  integer, parameter :: fused_tensor_texts = 1
  integer, parameter :: fusion_config_texts = 5
  integer, parameter :: operator_config_texts = 1
  integer, parameter :: optimized_layer_texts = 1
  integer, parameter :: optimizer_config_texts = 1
  integer, parameter :: sparse_adam_config_texts = 1
  integer, parameter :: sample_cache_config_texts = 2

  interface
    subroutine c_version(major, minor, patch) bind(C, name='weir_version')
      import :: c_int
      integer(c_int), intent(inout) :: major
      integer(c_int), intent(inout) :: minor
      integer(c_int), intent(inout) :: patch
    end subroutine
    function c_status_string(status) bind(C, name='weir_status_string') result(returned)
      import :: c_int, c_ptr
      integer(c_int), value :: status
      type(c_ptr) :: returned
    end function
    function c_last_error(comm) bind(C, name='weir_last_error') result(returned)
      import :: c_ptr
      type(c_ptr), value :: comm
      type(c_ptr) :: returned
    end function
    function c_algorithm_name(index) bind(C, name='weir_algorithm_name') result(returned)
      import :: c_int, c_ptr
      integer(c_int), value :: index
      type(c_ptr) :: returned
    end function
    function c_algorithm(index, info) bind(C, name='weir_algorithm') result(returned)
      import :: c_algorithm_info, c_int
      integer(c_int), value :: index
      type(c_algorithm_info), intent(inout) :: info
      integer(c_int) :: returned
    end function
    function c_compressor_name(index) bind(C, name='weir_compressor_name') result(returned)
      import :: c_int, c_ptr
      integer(c_int), value :: index
      type(c_ptr) :: returned
    end function
    function c_compressor(index, info) bind(C, name='weir_compressor') result(returned)
      import :: c_compressor_info, c_int
      integer(c_int), value :: index
      type(c_compressor_info), intent(inout) :: info
      integer(c_int) :: returned
    end function
    function c_setting(index, info) bind(C, name='weir_setting') result(returned)
      import :: c_int, c_setting_info
      integer(c_int), value :: index
      type(c_setting_info), intent(inout) :: info
      integer(c_int) :: returned
    end function
    function c_level_name(level) bind(C, name='weir_level_name') result(returned)
      import :: c_int32_t, c_ptr
      integer(c_int32_t), value :: level
      type(c_ptr) :: returned
    end function
    function c_set_log_function(function, context) bind(C, name='weir_set_log_function') result(returned)
      import :: c_funptr, c_int, c_ptr
      type(c_funptr), value :: function
      type(c_ptr), value :: context
      integer(c_int) :: returned
    end function
    function c_init() bind(C, name='weir_init') result(returned)
      import :: c_int
      integer(c_int) :: returned
    end function
    function c_finalize() bind(C, name='weir_finalize') result(returned)
      import :: c_int
      integer(c_int) :: returned
    end function
    function c_mpi_family() bind(C, name='weir_mpi_family') result(returned)
      import :: c_ptr
      type(c_ptr) :: returned
    end function
    function c_mpi_library() bind(C, name='weir_mpi_library') result(returned)
      import :: c_ptr
      type(c_ptr) :: returned
    end function
    function c_comm_create_world(comm) bind(C, name='weir_comm_create_world') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), intent(inout) :: comm
      integer(c_int) :: returned
    end function
    function c_comm_create_fortran(mpi_comm, comm) bind(C, name='weir_comm_create_fortran') result(returned)
      import :: c_int, c_int32_t, c_ptr
      integer(c_int32_t), value :: mpi_comm
      type(c_ptr), intent(inout) :: comm
      integer(c_int) :: returned
    end function
    function c_comm_rank(comm, rank) bind(C, name='weir_comm_rank') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: comm
      integer(c_int), intent(inout) :: rank
      integer(c_int) :: returned
    end function
    function c_comm_size(comm, size) bind(C, name='weir_comm_size') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: comm
      integer(c_int), intent(inout) :: size
      integer(c_int) :: returned
    end function
    function c_comm_topology(comm) bind(C, name='weir_comm_topology') result(returned)
      import :: c_ptr
      type(c_ptr), value :: comm
      type(c_ptr) :: returned
    end function
    function c_comm_level(comm, peer, level) bind(C, name='weir_comm_level') result(returned)
      import :: c_int, c_int32_t, c_ptr
      type(c_ptr), value :: comm
      integer(c_int), value :: peer
      integer(c_int32_t), intent(inout) :: level
      integer(c_int) :: returned
    end function
    function c_comm_group(comm, level, ranks, size, count) bind(C, name='weir_comm_group') result(returned)
      import :: c_int, c_int32_t, c_ptr
      type(c_ptr), value :: comm
      integer(c_int32_t), value :: level
      type(c_ptr), value :: ranks
      integer(c_int), value :: size
      integer(c_int), intent(inout) :: count
      integer(c_int) :: returned
    end function
    function c_comm_nearest_gpu(comm, gpu) bind(C, name='weir_comm_nearest_gpu') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: comm
      integer(c_int), intent(inout) :: gpu
      integer(c_int) :: returned
    end function
    function c_comm_stragglers(comm, runs, shares, size) bind(C, name='weir_comm_stragglers') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: comm
      integer(c_int), value :: runs
      type(c_ptr), value :: shares
      integer(c_int), value :: size
      integer(c_int) :: returned
    end function
    function c_comm_broadcast(comm, data, bytes, root) bind(C, name='weir_comm_broadcast') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: comm
      type(c_ptr), value :: data
      integer(c_int64_t), value :: bytes
      integer(c_int), value :: root
      integer(c_int) :: returned
    end function
    function c_comm_allgather(comm, mine, bytes, all) bind(C, name='weir_comm_allgather') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: comm
      type(c_ptr), value :: mine
      integer(c_int64_t), value :: bytes
      type(c_ptr), value :: all
      integer(c_int) :: returned
    end function
    function c_comm_dump(comm, path) bind(C, name='weir_comm_dump') result(returned)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: comm
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int) :: returned
    end function
    function c_comm_refuse(comm, what, why) bind(C, name='weir_comm_refuse') result(returned)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: comm
      character(kind=c_char), intent(in) :: what(*)
      character(kind=c_char), intent(in) :: why(*)
      integer(c_int) :: returned
    end function
    function c_comm_destroy(comm) bind(C, name='weir_comm_destroy') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: comm
      integer(c_int) :: returned
    end function
    function c_plan_create(comm, config, plan) bind(C, name='weir_plan_create') result(returned)
      import :: c_allreduce_config, c_int, c_ptr
      type(c_ptr), value :: comm
      type(c_allreduce_config), intent(in) :: config
      type(c_ptr), intent(inout) :: plan
      integer(c_int) :: returned
    end function
    function c_plan_destroy(plan) bind(C, name='weir_plan_destroy') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: plan
      integer(c_int) :: returned
    end function
    function c_plan_run(plan, gradient) bind(C, name='weir_plan_run') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: plan
      type(c_ptr), value :: gradient
      integer(c_int) :: returned
    end function
    function c_plan_run_sparse(plan, gradient, result) bind(C, name='weir_plan_run_sparse') result(returned)
      import :: c_int, c_ptr, c_sparse_result
      type(c_ptr), value :: plan
      type(c_ptr), value :: gradient
      type(c_sparse_result), intent(inout) :: result
      integer(c_int) :: returned
    end function
    function c_plan_start(plan, gradient) bind(C, name='weir_plan_start') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: plan
      type(c_ptr), value :: gradient
      integer(c_int) :: returned
    end function
    function c_plan_start_sparse(plan, gradient) bind(C, name='weir_plan_start_sparse') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: plan
      type(c_ptr), value :: gradient
      integer(c_int) :: returned
    end function
    function c_plan_run_on_stream(plan, gradient, stream) bind(C, name='weir_plan_run_on_stream') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: plan
      type(c_ptr), value :: gradient
      type(c_ptr), value :: stream
      integer(c_int) :: returned
    end function
    function c_plan_run_sparse_on_stream(plan, gradient, stream, result) bind(C, name='weir_plan_run_sparse_on_stream') &
      result(returned)
      import :: c_int, c_ptr, c_sparse_result
      type(c_ptr), value :: plan
      type(c_ptr), value :: gradient
      type(c_ptr), value :: stream
      type(c_sparse_result), intent(inout) :: result
      integer(c_int) :: returned
    end function
    function c_plan_start_on_stream(plan, gradient, stream) bind(C, name='weir_plan_start_on_stream') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: plan
      type(c_ptr), value :: gradient
      type(c_ptr), value :: stream
      integer(c_int) :: returned
    end function
    function c_plan_start_sparse_on_stream(plan, gradient, stream) bind(C, name='weir_plan_start_sparse_on_stream') &
      result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: plan
      type(c_ptr), value :: gradient
      type(c_ptr), value :: stream
      integer(c_int) :: returned
    end function
    function c_plan_test(plan, done) bind(C, name='weir_plan_test') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: plan
      integer(c_int), intent(inout) :: done
      integer(c_int) :: returned
    end function
    function c_plan_wait(plan) bind(C, name='weir_plan_wait') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: plan
      integer(c_int) :: returned
    end function
    function c_plan_wait_for(plan, seconds, done) bind(C, name='weir_plan_wait_for') result(returned)
      import :: c_double, c_int, c_ptr
      type(c_ptr), value :: plan
      real(c_double), value :: seconds
      integer(c_int), intent(inout) :: done
      integer(c_int) :: returned
    end function
    function c_plan_sparse_result(plan, result) bind(C, name='weir_plan_sparse_result') result(returned)
      import :: c_int, c_ptr, c_sparse_result
      type(c_ptr), value :: plan
      type(c_sparse_result), intent(inout) :: result
      integer(c_int) :: returned
    end function
    function c_plan_get_statistics(plan, statistics) bind(C, name='weir_plan_get_statistics') result(returned)
      import :: c_int, c_ptr, c_statistics
      type(c_ptr), value :: plan
      type(c_statistics), intent(inout) :: statistics
      integer(c_int) :: returned
    end function
    function c_plan_counter(plan, name, runs) bind(C, name='weir_plan_counter') result(returned)
      import :: c_char, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: plan
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), intent(inout) :: runs
      integer(c_int) :: returned
    end function
    function c_plan_residual(plan, residual) bind(C, name='weir_plan_residual') result(returned)
      import :: c_int, c_ptr, c_residual
      type(c_ptr), value :: plan
      type(c_residual), intent(inout) :: residual
      integer(c_int) :: returned
    end function
    function c_plan_get_config(plan, config) bind(C, name='weir_plan_get_config') result(returned)
      import :: c_allreduce_config, c_int, c_ptr
      type(c_ptr), value :: plan
      type(c_allreduce_config), intent(inout) :: config
      integer(c_int) :: returned
    end function
    function c_plan_memory_bytes(plan, bytes) bind(C, name='weir_plan_memory_bytes') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: plan
      integer(c_int64_t), intent(inout) :: bytes
      integer(c_int) :: returned
    end function
    function c_plan_state_bytes(plan, bytes) bind(C, name='weir_plan_state_bytes') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: plan
      integer(c_int64_t), intent(inout) :: bytes
      integer(c_int) :: returned
    end function
    function c_plan_save_state(plan, state, bytes) bind(C, name='weir_plan_save_state') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: plan
      type(c_ptr), value :: state
      integer(c_int64_t), value :: bytes
      integer(c_int) :: returned
    end function
    function c_plan_restore_state(plan, state, bytes) bind(C, name='weir_plan_restore_state') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: plan
      type(c_ptr), value :: state
      integer(c_int64_t), value :: bytes
      integer(c_int) :: returned
    end function
    function c_plan_encoded_bytes(plan, bytes) bind(C, name='weir_plan_encoded_bytes') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: plan
      integer(c_int64_t), intent(inout) :: bytes
      integer(c_int) :: returned
    end function
    function c_plan_encode(plan, gradient, out, size, bytes) bind(C, name='weir_plan_encode') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: plan
      type(c_ptr), value :: gradient
      type(c_ptr), value :: out
      integer(c_int64_t), value :: size
      integer(c_int64_t), intent(inout) :: bytes
      integer(c_int) :: returned
    end function
    function c_encoded_inspect(encoded, size, info) bind(C, name='weir_encoded_inspect') result(returned)
      import :: c_encoded_info, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: encoded
      integer(c_int64_t), value :: size
      type(c_encoded_info), intent(inout) :: info
      integer(c_int) :: returned
    end function
    function c_decode(encoded, size, values, count, add) bind(C, name='weir_decode') result(returned)
      import :: c_int, c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: encoded
      integer(c_int64_t), value :: size
      type(c_ptr), value :: values
      integer(c_int64_t), value :: count
      integer(c_int32_t), value :: add
      integer(c_int) :: returned
    end function
    function c_plan_explanation(plan) bind(C, name='weir_plan_explanation') result(returned)
      import :: c_ptr
      type(c_ptr), value :: plan
      type(c_ptr) :: returned
    end function
    function c_plan_reset(plan) bind(C, name='weir_plan_reset') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: plan
      integer(c_int) :: returned
    end function
    function c_plan_scale_residual(plan, factor) bind(C, name='weir_plan_scale_residual') result(returned)
      import :: c_double, c_int, c_ptr
      type(c_ptr), value :: plan
      real(c_double), value :: factor
      integer(c_int) :: returned
    end function
    function c_schedule_create(comm, blocks, count, schedule) bind(C, name='weir_schedule_create') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: comm
      type(c_ptr), value :: blocks
      integer(c_int), value :: count
      type(c_ptr), intent(inout) :: schedule
      integer(c_int) :: returned
    end function
    function c_schedule_destroy(schedule) bind(C, name='weir_schedule_destroy') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: schedule
      integer(c_int) :: returned
    end function
    function c_schedule_priority(schedule, block, priority) bind(C, name='weir_schedule_priority') result(returned)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: schedule
      character(kind=c_char), intent(in) :: block(*)
      integer(c_int), intent(inout) :: priority
      integer(c_int) :: returned
    end function
    function c_schedule_started(schedule, block, plan) bind(C, name='weir_schedule_started') result(returned)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: schedule
      character(kind=c_char), intent(in) :: block(*)
      type(c_ptr), value :: plan
      integer(c_int) :: returned
    end function
    function c_schedule_test(schedule, block, done) bind(C, name='weir_schedule_test') result(returned)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: schedule
      character(kind=c_char), intent(in) :: block(*)
      integer(c_int), intent(inout) :: done
      integer(c_int) :: returned
    end function
    function c_schedule_wait(schedule, block) bind(C, name='weir_schedule_wait') result(returned)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: schedule
      character(kind=c_char), intent(in) :: block(*)
      integer(c_int) :: returned
    end function
    function c_schedule_wait_all(schedule) bind(C, name='weir_schedule_wait_all') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: schedule
      integer(c_int) :: returned
    end function
    function c_schedule_pending(schedule, block, operations) bind(C, name='weir_schedule_pending') result(returned)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: schedule
      character(kind=c_char), intent(in) :: block(*)
      integer(c_int), intent(inout) :: operations
      integer(c_int) :: returned
    end function
    function c_exchange_name(index) bind(C, name='weir_exchange_name') result(returned)
      import :: c_int, c_ptr
      integer(c_int), value :: index
      type(c_ptr) :: returned
    end function
    function c_exchange(index, info) bind(C, name='weir_exchange') result(returned)
      import :: c_exchange_info, c_int
      integer(c_int), value :: index
      type(c_exchange_info), intent(inout) :: info
      integer(c_int) :: returned
    end function
    function c_embedding_create(comm, config, table) bind(C, name='weir_embedding_create') result(returned)
      import :: c_embedding_config, c_int, c_ptr
      type(c_ptr), value :: comm
      type(c_embedding_config), intent(in) :: config
      type(c_ptr), intent(inout) :: table
      integer(c_int) :: returned
    end function
    function c_embedding_destroy(table) bind(C, name='weir_embedding_destroy') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: table
      integer(c_int) :: returned
    end function
    function c_embedding_lookup_int32(table, ids, count, vectors) bind(C, name='weir_embedding_lookup_int32') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: table
      type(c_ptr), value :: ids
      integer(c_int64_t), value :: count
      type(c_ptr), value :: vectors
      integer(c_int) :: returned
    end function
    function c_embedding_lookup_int64(table, ids, count, vectors) bind(C, name='weir_embedding_lookup_int64') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: table
      type(c_ptr), value :: ids
      integer(c_int64_t), value :: count
      type(c_ptr), value :: vectors
      integer(c_int) :: returned
    end function
    function c_embedding_lookup_test(table, done) bind(C, name='weir_embedding_lookup_test') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: table
      integer(c_int), intent(inout) :: done
      integer(c_int) :: returned
    end function
    function c_embedding_lookup_wait(table) bind(C, name='weir_embedding_lookup_wait') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: table
      integer(c_int) :: returned
    end function
    function c_embedding_lookup_wait_for(table, seconds, done) bind(C, name='weir_embedding_lookup_wait_for') result(returned)
      import :: c_double, c_int, c_ptr
      type(c_ptr), value :: table
      real(c_double), value :: seconds
      integer(c_int), intent(inout) :: done
      integer(c_int) :: returned
    end function
    function c_embedding_prefetch_int32(table, ids, count) bind(C, name='weir_embedding_prefetch_int32') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: table
      type(c_ptr), value :: ids
      integer(c_int64_t), value :: count
      integer(c_int) :: returned
    end function
    function c_embedding_prefetch_int64(table, ids, count) bind(C, name='weir_embedding_prefetch_int64') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: table
      type(c_ptr), value :: ids
      integer(c_int64_t), value :: count
      integer(c_int) :: returned
    end function
    function c_embedding_prefetch_test(table, done) bind(C, name='weir_embedding_prefetch_test') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: table
      integer(c_int), intent(inout) :: done
      integer(c_int) :: returned
    end function
    function c_embedding_prefetch_wait(table) bind(C, name='weir_embedding_prefetch_wait') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: table
      integer(c_int) :: returned
    end function
    function c_embedding_prefetch_wait_for(table, seconds, done) bind(C, name='weir_embedding_prefetch_wait_for') result(returned)
      import :: c_double, c_int, c_ptr
      type(c_ptr), value :: table
      real(c_double), value :: seconds
      integer(c_int), intent(inout) :: done
      integer(c_int) :: returned
    end function
    function c_embedding_update(table, gradients, count) bind(C, name='weir_embedding_update') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: table
      type(c_ptr), value :: gradients
      integer(c_int64_t), value :: count
      integer(c_int) :: returned
    end function
    function c_embedding_update_test(table, done) bind(C, name='weir_embedding_update_test') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: table
      integer(c_int), intent(inout) :: done
      integer(c_int) :: returned
    end function
    function c_embedding_update_wait(table) bind(C, name='weir_embedding_update_wait') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: table
      integer(c_int) :: returned
    end function
    function c_embedding_update_wait_for(table, seconds, done) bind(C, name='weir_embedding_update_wait_for') result(returned)
      import :: c_double, c_int, c_ptr
      type(c_ptr), value :: table
      real(c_double), value :: seconds
      integer(c_int), intent(inout) :: done
      integer(c_int) :: returned
    end function
    function c_embedding_lookup_int32_on_stream(table, ids, count, vectors, stream) bind(C, &
      name='weir_embedding_lookup_int32_on_stream') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: table
      type(c_ptr), value :: ids
      integer(c_int64_t), value :: count
      type(c_ptr), value :: vectors
      type(c_ptr), value :: stream
      integer(c_int) :: returned
    end function
    function c_embedding_lookup_int64_on_stream(table, ids, count, vectors, stream) bind(C, &
      name='weir_embedding_lookup_int64_on_stream') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: table
      type(c_ptr), value :: ids
      integer(c_int64_t), value :: count
      type(c_ptr), value :: vectors
      type(c_ptr), value :: stream
      integer(c_int) :: returned
    end function
    function c_embedding_prefetch_int32_on_stream(table, ids, count, stream) bind(C, &
      name='weir_embedding_prefetch_int32_on_stream') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: table
      type(c_ptr), value :: ids
      integer(c_int64_t), value :: count
      type(c_ptr), value :: stream
      integer(c_int) :: returned
    end function
    function c_embedding_prefetch_int64_on_stream(table, ids, count, stream) bind(C, &
      name='weir_embedding_prefetch_int64_on_stream') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: table
      type(c_ptr), value :: ids
      integer(c_int64_t), value :: count
      type(c_ptr), value :: stream
      integer(c_int) :: returned
    end function
    function c_embedding_update_on_stream(table, gradients, count, stream) bind(C, name='weir_embedding_update_on_stream') &
      result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: table
      type(c_ptr), value :: gradients
      integer(c_int64_t), value :: count
      type(c_ptr), value :: stream
      integer(c_int) :: returned
    end function
    function c_embedding_set_learning_rate(table, learning_rate) bind(C, name='weir_embedding_set_learning_rate') result(returned)
      import :: c_double, c_int, c_ptr
      type(c_ptr), value :: table
      real(c_double), value :: learning_rate
      integer(c_int) :: returned
    end function
    function c_embedding_export_rows(table, first, count, values) bind(C, name='weir_embedding_export_rows') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: table
      integer(c_int64_t), value :: first
      integer(c_int64_t), value :: count
      type(c_ptr), value :: values
      integer(c_int) :: returned
    end function
    function c_embedding_import_rows(table, first, count, values) bind(C, name='weir_embedding_import_rows') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: table
      integer(c_int64_t), value :: first
      integer(c_int64_t), value :: count
      type(c_ptr), value :: values
      integer(c_int) :: returned
    end function
    function c_embedding_get_config(table, config) bind(C, name='weir_embedding_get_config') result(returned)
      import :: c_embedding_config, c_int, c_ptr
      type(c_ptr), value :: table
      type(c_embedding_config), intent(inout) :: config
      integer(c_int) :: returned
    end function
    function c_embedding_memory_bytes(table, bytes) bind(C, name='weir_embedding_memory_bytes') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: table
      integer(c_int64_t), intent(inout) :: bytes
      integer(c_int) :: returned
    end function
    function c_embedding_state_bytes(table, bytes) bind(C, name='weir_embedding_state_bytes') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: table
      integer(c_int64_t), intent(inout) :: bytes
      integer(c_int) :: returned
    end function
    function c_embedding_save_state(table, state, bytes) bind(C, name='weir_embedding_save_state') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: table
      type(c_ptr), value :: state
      integer(c_int64_t), value :: bytes
      integer(c_int) :: returned
    end function
    function c_embedding_restore_state(table, state, bytes) bind(C, name='weir_embedding_restore_state') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: table
      type(c_ptr), value :: state
      integer(c_int64_t), value :: bytes
      integer(c_int) :: returned
    end function
    function c_embedding_get_statistics(table, statistics) bind(C, name='weir_embedding_get_statistics') result(returned)
      import :: c_embedding_statistics, c_int, c_ptr
      type(c_ptr), value :: table
      type(c_embedding_statistics), intent(inout) :: statistics
      integer(c_int) :: returned
    end function
    function c_checkpoint_create(comm, config, checkpoint) bind(C, name='weir_checkpoint_create') result(returned)
      import :: c_checkpoint_config, c_int, c_ptr
      type(c_ptr), value :: comm
      type(c_checkpoint_config), intent(in) :: config
      type(c_ptr), intent(inout) :: checkpoint
      integer(c_int) :: returned
    end function
    function c_checkpoint_destroy(checkpoint) bind(C, name='weir_checkpoint_destroy') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: checkpoint
      integer(c_int) :: returned
    end function
    function c_checkpoint_add_plan(checkpoint, name, plan) bind(C, name='weir_checkpoint_add_plan') result(returned)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: plan
      integer(c_int) :: returned
    end function
    function c_checkpoint_add_embedding(checkpoint, name, table) bind(C, name='weir_checkpoint_add_embedding') result(returned)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: table
      integer(c_int) :: returned
    end function
    function c_checkpoint_add_fused(checkpoint, name, fused) bind(C, name='weir_checkpoint_add_fused') result(returned)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: fused
      integer(c_int) :: returned
    end function
    function c_checkpoint_add_optimizer(checkpoint, name, optimizer) bind(C, name='weir_checkpoint_add_optimizer') &
      result(returned)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: optimizer
      integer(c_int) :: returned
    end function
    function c_checkpoint_add_sparse_adam(checkpoint, name, adam) bind(C, name='weir_checkpoint_add_sparse_adam') result(returned)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: adam
      integer(c_int) :: returned
    end function
    function c_checkpoint_add_schedule(checkpoint, name, schedule) bind(C, name='weir_checkpoint_add_schedule') result(returned)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: schedule
      integer(c_int) :: returned
    end function
    function c_checkpoint_add_array(checkpoint, name, data, type, distribution, count, first, total) bind(C, &
      name='weir_checkpoint_add_array') result(returned)
      import :: c_char, c_int, c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: data
      integer(c_int32_t), value :: type
      integer(c_int32_t), value :: distribution
      integer(c_int64_t), value :: count
      integer(c_int64_t), value :: first
      integer(c_int64_t), value :: total
      integer(c_int) :: returned
    end function
    function c_checkpoint_set_integer(checkpoint, name, value) bind(C, name='weir_checkpoint_set_integer') result(returned)
      import :: c_char, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: value
      integer(c_int) :: returned
    end function
    function c_checkpoint_set_real(checkpoint, name, value) bind(C, name='weir_checkpoint_set_real') result(returned)
      import :: c_char, c_double, c_int, c_ptr
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
      real(c_double), value :: value
      integer(c_int) :: returned
    end function
    function c_checkpoint_set_text(checkpoint, name, value) bind(C, name='weir_checkpoint_set_text') result(returned)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
      character(kind=c_char), intent(in) :: value(*)
      integer(c_int) :: returned
    end function
    function c_checkpoint_get_integer(checkpoint, name, value) bind(C, name='weir_checkpoint_get_integer') result(returned)
      import :: c_char, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), intent(inout) :: value
      integer(c_int) :: returned
    end function
    function c_checkpoint_get_real(checkpoint, name, value) bind(C, name='weir_checkpoint_get_real') result(returned)
      import :: c_char, c_double, c_int, c_ptr
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
      real(c_double), intent(inout) :: value
      integer(c_int) :: returned
    end function
    function c_checkpoint_get_text(checkpoint, name, value) bind(C, name='weir_checkpoint_get_text') result(returned)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), intent(inout) :: value
      integer(c_int) :: returned
    end function
    function c_checkpoint_save(checkpoint, step) bind(C, name='weir_checkpoint_save') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: checkpoint
      integer(c_int64_t), value :: step
      integer(c_int) :: returned
    end function
    function c_checkpoint_test(checkpoint, done) bind(C, name='weir_checkpoint_test') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: checkpoint
      integer(c_int), intent(inout) :: done
      integer(c_int) :: returned
    end function
    function c_checkpoint_wait(checkpoint) bind(C, name='weir_checkpoint_wait') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: checkpoint
      integer(c_int) :: returned
    end function
    function c_checkpoint_wait_for(checkpoint, seconds, done) bind(C, name='weir_checkpoint_wait_for') result(returned)
      import :: c_double, c_int, c_ptr
      type(c_ptr), value :: checkpoint
      real(c_double), value :: seconds
      integer(c_int), intent(inout) :: done
      integer(c_int) :: returned
    end function
    function c_checkpoint_restore(checkpoint, step, restored) bind(C, name='weir_checkpoint_restore') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: checkpoint
      integer(c_int64_t), value :: step
      integer(c_int64_t), intent(inout) :: restored
      integer(c_int) :: returned
    end function
    function c_checkpoint_steps(checkpoint, steps, size, count) bind(C, name='weir_checkpoint_steps') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: checkpoint
      type(c_ptr), value :: steps
      integer(c_int), value :: size
      integer(c_int), intent(inout) :: count
      integer(c_int) :: returned
    end function
    function c_checkpoint_catch_signal(signal) bind(C, name='weir_checkpoint_catch_signal') result(returned)
      import :: c_int
      integer(c_int), value :: signal
      integer(c_int) :: returned
    end function
    function c_checkpoint_stop_requested(checkpoint, stop) bind(C, name='weir_checkpoint_stop_requested') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: checkpoint
      integer(c_int), intent(inout) :: stop
      integer(c_int) :: returned
    end function
    function c_checkpoint_get_statistics(checkpoint, statistics) bind(C, name='weir_checkpoint_get_statistics') result(returned)
      import :: c_checkpoint_statistics, c_int, c_ptr
      type(c_ptr), value :: checkpoint
      type(c_checkpoint_statistics), intent(inout) :: statistics
      integer(c_int) :: returned
    end function
    function c_checkpoint_get_config(checkpoint, config) bind(C, name='weir_checkpoint_get_config') result(returned)
      import :: c_checkpoint_config, c_int, c_ptr
      type(c_ptr), value :: checkpoint
      type(c_checkpoint_config), intent(inout) :: config
      integer(c_int) :: returned
    end function
    function c_fused_create(comm, config, tensors, count, fused) bind(C, name='weir_fused_create') result(returned)
      import :: c_fusion_config, c_int, c_ptr
      type(c_ptr), value :: comm
      type(c_fusion_config), intent(in) :: config
      type(c_ptr), value :: tensors
      integer(c_int), value :: count
      type(c_ptr), intent(inout) :: fused
      integer(c_int) :: returned
    end function
    function c_fused_destroy(fused) bind(C, name='weir_fused_destroy') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: fused
      integer(c_int) :: returned
    end function
    function c_fused_ready(fused, tensor, gradient, count) bind(C, name='weir_fused_ready') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: fused
      integer(c_int), value :: tensor
      type(c_ptr), value :: gradient
      integer(c_int64_t), value :: count
      integer(c_int) :: returned
    end function
    function c_fused_skip(fused, tensor, gradient, count) bind(C, name='weir_fused_skip') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: fused
      integer(c_int), value :: tensor
      type(c_ptr), value :: gradient
      integer(c_int64_t), value :: count
      integer(c_int) :: returned
    end function
    function c_fused_progress(fused) bind(C, name='weir_fused_progress') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: fused
      integer(c_int) :: returned
    end function
    function c_fused_test(fused, tensor, done) bind(C, name='weir_fused_test') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: fused
      integer(c_int), value :: tensor
      integer(c_int), intent(inout) :: done
      integer(c_int) :: returned
    end function
    function c_fused_wait(fused, tensor) bind(C, name='weir_fused_wait') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: fused
      integer(c_int), value :: tensor
      integer(c_int) :: returned
    end function
    function c_fused_wait_for(fused, tensor, seconds, done) bind(C, name='weir_fused_wait_for') result(returned)
      import :: c_double, c_int, c_ptr
      type(c_ptr), value :: fused
      integer(c_int), value :: tensor
      real(c_double), value :: seconds
      integer(c_int), intent(inout) :: done
      integer(c_int) :: returned
    end function
    function c_fused_wait_all(fused) bind(C, name='weir_fused_wait_all') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: fused
      integer(c_int) :: returned
    end function
    function c_fused_find_tensor(fused, name, tensor) bind(C, name='weir_fused_find_tensor') result(returned)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: fused
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), intent(inout) :: tensor
      integer(c_int) :: returned
    end function
    function c_fused_buffer_of(fused, tensor, buffer) bind(C, name='weir_fused_buffer_of') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: fused
      integer(c_int), value :: tensor
      integer(c_int), intent(inout) :: buffer
      integer(c_int) :: returned
    end function
    function c_fused_residual(fused, tensor, residual) bind(C, name='weir_fused_residual') result(returned)
      import :: c_int, c_ptr, c_residual
      type(c_ptr), value :: fused
      integer(c_int), value :: tensor
      type(c_residual), intent(inout) :: residual
      integer(c_int) :: returned
    end function
    function c_fused_get_statistics(fused, statistics) bind(C, name='weir_fused_get_statistics') result(returned)
      import :: c_fusion_statistics, c_int, c_ptr
      type(c_ptr), value :: fused
      type(c_fusion_statistics), intent(inout) :: statistics
      integer(c_int) :: returned
    end function
    function c_fused_get_config(fused, config) bind(C, name='weir_fused_get_config') result(returned)
      import :: c_fusion_config, c_int, c_ptr
      type(c_ptr), value :: fused
      type(c_fusion_config), intent(inout) :: config
      integer(c_int) :: returned
    end function
    function c_fused_explanation(fused) bind(C, name='weir_fused_explanation') result(returned)
      import :: c_ptr
      type(c_ptr), value :: fused
      type(c_ptr) :: returned
    end function
    function c_fused_memory_bytes(fused, bytes) bind(C, name='weir_fused_memory_bytes') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: fused
      integer(c_int64_t), intent(inout) :: bytes
      integer(c_int) :: returned
    end function
    function c_fused_state_bytes(fused, bytes) bind(C, name='weir_fused_state_bytes') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: fused
      integer(c_int64_t), intent(inout) :: bytes
      integer(c_int) :: returned
    end function
    function c_fused_save_state(fused, state, bytes) bind(C, name='weir_fused_save_state') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: fused
      type(c_ptr), value :: state
      integer(c_int64_t), value :: bytes
      integer(c_int) :: returned
    end function
    function c_fused_restore_state(fused, state, bytes) bind(C, name='weir_fused_restore_state') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: fused
      type(c_ptr), value :: state
      integer(c_int64_t), value :: bytes
      integer(c_int) :: returned
    end function
    function c_fused_reset(fused) bind(C, name='weir_fused_reset') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: fused
      integer(c_int) :: returned
    end function
    function c_fused_scale_residuals(fused, factor) bind(C, name='weir_fused_scale_residuals') result(returned)
      import :: c_double, c_int, c_ptr
      type(c_ptr), value :: fused
      real(c_double), value :: factor
      integer(c_int) :: returned
    end function
    function c_operator_create(comm, config, parts, count, work) bind(C, name='weir_operator_create') result(returned)
      import :: c_int, c_operator_config, c_ptr
      type(c_ptr), value :: comm
      type(c_operator_config), intent(in) :: config
      type(c_ptr), value :: parts
      integer(c_int), value :: count
      type(c_ptr), intent(inout) :: work
      integer(c_int) :: returned
    end function
    function c_operator_destroy(work) bind(C, name='weir_operator_destroy') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: work
      integer(c_int) :: returned
    end function
    function c_operator_run(work, body, context, results, bytes) bind(C, name='weir_operator_run') result(returned)
      import :: c_funptr, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: work
      type(c_funptr), value :: body
      type(c_ptr), value :: context
      type(c_ptr), value :: results
      integer(c_int64_t), value :: bytes
      integer(c_int) :: returned
    end function
    function c_operator_start(work, body, context, results, bytes) bind(C, name='weir_operator_start') result(returned)
      import :: c_funptr, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: work
      type(c_funptr), value :: body
      type(c_ptr), value :: context
      type(c_ptr), value :: results
      integer(c_int64_t), value :: bytes
      integer(c_int) :: returned
    end function
    function c_operator_refuse(work, why) bind(C, name='weir_operator_refuse') result(returned)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: work
      character(kind=c_char), intent(in) :: why(*)
      integer(c_int) :: returned
    end function
    function c_operator_test(work, done) bind(C, name='weir_operator_test') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: work
      integer(c_int), intent(inout) :: done
      integer(c_int) :: returned
    end function
    function c_operator_wait(work) bind(C, name='weir_operator_wait') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: work
      integer(c_int) :: returned
    end function
    function c_operator_wait_for(work, seconds, done) bind(C, name='weir_operator_wait_for') result(returned)
      import :: c_double, c_int, c_ptr
      type(c_ptr), value :: work
      real(c_double), value :: seconds
      integer(c_int), intent(inout) :: done
      integer(c_int) :: returned
    end function
    function c_operator_bytes(work, bytes) bind(C, name='weir_operator_bytes') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: work
      integer(c_int64_t), intent(inout) :: bytes
      integer(c_int) :: returned
    end function
    function c_operator_offset(work, part, offset) bind(C, name='weir_operator_offset') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: work
      integer(c_int), value :: part
      integer(c_int64_t), intent(inout) :: offset
      integer(c_int) :: returned
    end function
    function c_operator_result_bytes(work, part, bytes) bind(C, name='weir_operator_result_bytes') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: work
      integer(c_int), value :: part
      integer(c_int64_t), intent(inout) :: bytes
      integer(c_int) :: returned
    end function
    function c_operator_works_on(work, part, works) bind(C, name='weir_operator_works_on') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: work
      integer(c_int), value :: part
      integer(c_int), intent(inout) :: works
      integer(c_int) :: returned
    end function
    function c_operator_get_statistics(work, statistics) bind(C, name='weir_operator_get_statistics') result(returned)
      import :: c_int, c_operator_statistics, c_ptr
      type(c_ptr), value :: work
      type(c_operator_statistics), intent(inout) :: statistics
      integer(c_int) :: returned
    end function
    function c_operator_get_config(work, config) bind(C, name='weir_operator_get_config') result(returned)
      import :: c_int, c_operator_config, c_ptr
      type(c_ptr), value :: work
      type(c_operator_config), intent(inout) :: config
      integer(c_int) :: returned
    end function
    function c_operator_explanation(work) bind(C, name='weir_operator_explanation') result(returned)
      import :: c_ptr
      type(c_ptr), value :: work
      type(c_ptr) :: returned
    end function
    function c_operator_memory_bytes(work, bytes) bind(C, name='weir_operator_memory_bytes') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: work
      integer(c_int64_t), intent(inout) :: bytes
      integer(c_int) :: returned
    end function
    function c_optimizer_create(comm, config, layers, count, optimizer) bind(C, name='weir_optimizer_create') result(returned)
      import :: c_int, c_optimizer_config, c_ptr
      type(c_ptr), value :: comm
      type(c_optimizer_config), intent(in) :: config
      type(c_ptr), value :: layers
      integer(c_int), value :: count
      type(c_ptr), intent(inout) :: optimizer
      integer(c_int) :: returned
    end function
    function c_optimizer_destroy(optimizer) bind(C, name='weir_optimizer_destroy') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: optimizer
      integer(c_int) :: returned
    end function
    function c_optimizer_step(optimizer, weights, gradients, count, learning_rate) bind(C, name='weir_optimizer_step') &
      result(returned)
      import :: c_double, c_int, c_ptr
      type(c_ptr), value :: optimizer
      type(c_ptr), value :: weights
      type(c_ptr), value :: gradients
      integer(c_int), value :: count
      real(c_double), value :: learning_rate
      integer(c_int) :: returned
    end function
    function c_optimizer_step_on_stream(optimizer, weights, gradients, count, learning_rate, stream) bind(C, &
      name='weir_optimizer_step_on_stream') result(returned)
      import :: c_double, c_int, c_ptr
      type(c_ptr), value :: optimizer
      type(c_ptr), value :: weights
      type(c_ptr), value :: gradients
      integer(c_int), value :: count
      real(c_double), value :: learning_rate
      type(c_ptr), value :: stream
      integer(c_int) :: returned
    end function
    function c_optimizer_refuse(optimizer, why) bind(C, name='weir_optimizer_refuse') result(returned)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: optimizer
      character(kind=c_char), intent(in) :: why(*)
      integer(c_int) :: returned
    end function
    function c_optimizer_rates(optimizer, rates, count) bind(C, name='weir_optimizer_rates') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: optimizer
      type(c_ptr), value :: rates
      integer(c_int), value :: count
      integer(c_int) :: returned
    end function
    function c_optimizer_get_statistics(optimizer, statistics) bind(C, name='weir_optimizer_get_statistics') result(returned)
      import :: c_int, c_optimizer_statistics, c_ptr
      type(c_ptr), value :: optimizer
      type(c_optimizer_statistics), intent(inout) :: statistics
      integer(c_int) :: returned
    end function
    function c_optimizer_get_config(optimizer, config) bind(C, name='weir_optimizer_get_config') result(returned)
      import :: c_int, c_optimizer_config, c_ptr
      type(c_ptr), value :: optimizer
      type(c_optimizer_config), intent(inout) :: config
      integer(c_int) :: returned
    end function
    function c_optimizer_explanation(optimizer) bind(C, name='weir_optimizer_explanation') result(returned)
      import :: c_ptr
      type(c_ptr), value :: optimizer
      type(c_ptr) :: returned
    end function
    function c_optimizer_memory_bytes(optimizer, bytes) bind(C, name='weir_optimizer_memory_bytes') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: optimizer
      integer(c_int64_t), intent(inout) :: bytes
      integer(c_int) :: returned
    end function
    function c_optimizer_state_bytes(optimizer, bytes) bind(C, name='weir_optimizer_state_bytes') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: optimizer
      integer(c_int64_t), intent(inout) :: bytes
      integer(c_int) :: returned
    end function
    function c_optimizer_save_state(optimizer, state, bytes) bind(C, name='weir_optimizer_save_state') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: optimizer
      type(c_ptr), value :: state
      integer(c_int64_t), value :: bytes
      integer(c_int) :: returned
    end function
    function c_optimizer_restore_state(optimizer, state, bytes) bind(C, name='weir_optimizer_restore_state') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: optimizer
      type(c_ptr), value :: state
      integer(c_int64_t), value :: bytes
      integer(c_int) :: returned
    end function
    function c_optimizer_reset(optimizer) bind(C, name='weir_optimizer_reset') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: optimizer
      integer(c_int) :: returned
    end function
    function c_sparse_adam_create(config, adam) bind(C, name='weir_sparse_adam_create') result(returned)
      import :: c_int, c_ptr, c_sparse_adam_config
      type(c_sparse_adam_config), intent(in) :: config
      type(c_ptr), intent(inout) :: adam
      integer(c_int) :: returned
    end function
    function c_sparse_adam_destroy(adam) bind(C, name='weir_sparse_adam_destroy') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: adam
      integer(c_int) :: returned
    end function
    function c_sparse_adam_step(adam, indices, values, entries, weights, count, learning_rate) bind(C, &
      name='weir_sparse_adam_step') result(returned)
      import :: c_double, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: adam
      type(c_ptr), value :: indices
      type(c_ptr), value :: values
      integer(c_int64_t), value :: entries
      type(c_ptr), value :: weights
      integer(c_int64_t), value :: count
      real(c_double), value :: learning_rate
      integer(c_int) :: returned
    end function
    function c_sparse_adam_step_part(adam, indices, values, entries, weights, count, learning_rate) bind(C, &
      name='weir_sparse_adam_step_part') result(returned)
      import :: c_double, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: adam
      type(c_ptr), value :: indices
      type(c_ptr), value :: values
      integer(c_int64_t), value :: entries
      type(c_ptr), value :: weights
      integer(c_int64_t), value :: count
      real(c_double), value :: learning_rate
      integer(c_int) :: returned
    end function
    function c_sparse_adam_steps(adam, number) bind(C, name='weir_sparse_adam_steps') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: adam
      integer(c_int64_t), intent(inout) :: number
      integer(c_int) :: returned
    end function
    function c_sparse_adam_get_config(adam, config) bind(C, name='weir_sparse_adam_get_config') result(returned)
      import :: c_int, c_ptr, c_sparse_adam_config
      type(c_ptr), value :: adam
      type(c_sparse_adam_config), intent(inout) :: config
      integer(c_int) :: returned
    end function
    function c_sparse_adam_memory_bytes(adam, bytes) bind(C, name='weir_sparse_adam_memory_bytes') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: adam
      integer(c_int64_t), intent(inout) :: bytes
      integer(c_int) :: returned
    end function
    function c_sparse_adam_state_bytes(adam, bytes) bind(C, name='weir_sparse_adam_state_bytes') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: adam
      integer(c_int64_t), intent(inout) :: bytes
      integer(c_int) :: returned
    end function
    function c_sparse_adam_save_state(adam, state, bytes) bind(C, name='weir_sparse_adam_save_state') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: adam
      type(c_ptr), value :: state
      integer(c_int64_t), value :: bytes
      integer(c_int) :: returned
    end function
    function c_sparse_adam_restore_state(adam, state, bytes) bind(C, name='weir_sparse_adam_restore_state') result(returned)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: adam
      type(c_ptr), value :: state
      integer(c_int64_t), value :: bytes
      integer(c_int) :: returned
    end function
    function c_sparse_adam_reset(adam) bind(C, name='weir_sparse_adam_reset') result(returned)
      import :: c_int, c_ptr
      type(c_ptr), value :: adam
      integer(c_int) :: returned
    end function
  end interface

  interface to_c
    module procedure allreduce_config_to_c, embedding_config_to_c, checkpoint_config_to_c, fused_tensor_to_c, fusion_config_to_c, &
      operator_part_to_c, operator_config_to_c, optimized_layer_to_c, optimizer_config_to_c, sparse_adam_config_to_c, &
      sample_cache_config_to_c, sample_loader_config_to_c
  end interface

  interface from_c
    module procedure allreduce_config_from_c, statistics_from_c, algorithm_info_from_c, compressor_info_from_c, &
      encoded_info_from_c, setting_info_from_c, embedding_config_from_c, embedding_statistics_from_c, exchange_info_from_c, &
      checkpoint_config_from_c, checkpoint_statistics_from_c, fused_tensor_from_c, fusion_config_from_c, fusion_statistics_from_c, &
      operator_part_from_c, operator_config_from_c, operator_statistics_from_c, optimized_layer_from_c, optimizer_config_from_c, &
      optimizer_statistics_from_c, sparse_adam_config_from_c, sample_cache_config_from_c, sample_cache_statistics_from_c, &
      sample_loader_config_from_c
  end interface

contains

  !> `texts`, WEIR_LONG_TEXT_LENGTH + 1 characters for each of allreduce_config_texts, must live as long as `c` is in use.
  subroutine allreduce_config_to_c(from, c, texts)
    type(weir_allreduce_config), intent(in) :: from
    type(c_allreduce_config), intent(out) :: c
    character(kind=c_char), intent(out), target :: texts(:, :)

    c%struct_size = c_sizeof(c)
    c%count = from%count
    c%type = from%type
    c%memory = from%memory
    c%density = from%density
    c%k = from%k
    c%algorithm = c_text(from%algorithm, texts(:, 1))
    c%algorithm_parameters = c_text(from%algorithm_parameters, texts(:, 2))
    c%trial_iterations = from%trial_iterations
    c%compressor = c_text(from%compressor, texts(:, 3))
    c%compressor_parameters = c_text(from%compressor_parameters, texts(:, 4))
    c%seed = from%seed
    c%error_feedback = from%error_feedback
    c%feedback_decay = from%feedback_decay
    c%feedback_gain = from%feedback_gain
    c%average = merge(1, 0, from%average)
    c%threshold = c_text(from%threshold, texts(:, 5))
    c%threshold_parameters = c_text(from%threshold_parameters, texts(:, 6))
    c%wire_format = from%wire_format
    c%wire_values = from%wire_values
    c%threads = from%threads
    c%non_finite = from%non_finite
    c%dense_iterations = from%dense_iterations
    c%warmup_iterations = from%warmup_iterations
    c%priority = from%priority
    c%name = c_text(from%name, texts(:, 7))
  end subroutine

  !> `texts`, WEIR_TEXT_LENGTH + 1 characters for each of embedding_config_texts, must live as long as `c` is in use.
  subroutine embedding_config_to_c(from, c, texts)
    type(weir_embedding_config), intent(in) :: from
    type(c_embedding_config), intent(out) :: c
    character(kind=c_char), intent(out), target :: texts(:, :)

    c%struct_size = c_sizeof(c)
    c%rows = from%rows
    c%width = from%width
    c%largest_batch = from%largest_batch
    c%memory = from%memory
    c%exchange = c_text(from%exchange, texts(:, 1))
    c%optimizer = from%optimizer
    c%learning_rate = from%learning_rate
    c%beta1 = from%beta1
    c%beta2 = from%beta2
    c%epsilon = from%epsilon
    c%average = merge(1, 0, from%average)
    c%wire_values = from%wire_values
    c%routing = from%routing
    c%seed = from%seed
    c%initial_range = from%initial_range
    c%priority = from%priority
    c%delayed_priority = from%delayed_priority
    c%name = c_text(from%name, texts(:, 2))
  end subroutine

  !> `texts`, WEIR_LONG_TEXT_LENGTH + 1 characters for each of checkpoint_config_texts, must live as long as `c` is in use.
  subroutine checkpoint_config_to_c(from, c, texts)
    type(weir_checkpoint_config), intent(in) :: from
    type(c_checkpoint_config), intent(out) :: c
    character(kind=c_char), intent(out), target :: texts(:, :)

    c%struct_size = c_sizeof(c)
    c%folder = c_text(from%folder, texts(:, 1))
    c%run = c_text(from%run, texts(:, 2))
    c%keep = from%keep
    c%compression = from%compression
    c%strict = merge(1, 0, from%strict)
    c%name = c_text(from%name, texts(:, 3))
  end subroutine

  !> `texts`, WEIR_LONG_TEXT_LENGTH + 1 characters for each of fused_tensor_texts, must live as long as `c` is in use.
  subroutine fused_tensor_to_c(from, c, texts)
    type(weir_fused_tensor), intent(in) :: from
    type(c_fused_tensor), intent(out) :: c
    character(kind=c_char), intent(out), target :: texts(:, :)

    c%struct_size = c_sizeof(c)
    c%name = c_text(from%name, texts(:, 1))
    c%count = from%count
    c%density = from%density
    c%k = from%k
    c%dense = merge(1, 0, from%dense)
    c%optional = merge(1, 0, from%optional)
  end subroutine

  !> `texts`, WEIR_LONG_TEXT_LENGTH + 1 characters for each of fusion_config_texts, must live as long as `c` is in use.
  subroutine fusion_config_to_c(from, c, texts)
    type(weir_fusion_config), intent(in) :: from
    type(c_fusion_config), intent(out) :: c
    character(kind=c_char), intent(out), target :: texts(:, :)

    c%struct_size = c_sizeof(c)
    c%scheme = from%scheme
    c%buffer_bytes = from%buffer_bytes
    c%type = from%type
    c%density = from%density
    c%algorithm = c_text(from%algorithm, texts(:, 1))
    c%algorithm_parameters = c_text(from%algorithm_parameters, texts(:, 2))
    c%threshold = c_text(from%threshold, texts(:, 3))
    c%threshold_parameters = c_text(from%threshold_parameters, texts(:, 4))
    c%error_feedback = from%error_feedback
    c%average = merge(1, 0, from%average)
    c%wire_format = from%wire_format
    c%wire_values = from%wire_values
    c%non_finite = from%non_finite
    c%priority = from%priority
    c%name = c_text(from%name, texts(:, 5))
  end subroutine

  subroutine operator_part_to_c(from, c)
    type(weir_operator_part), intent(in) :: from
    type(c_operator_part), intent(out) :: c

    c%struct_size = c_sizeof(c)
    c%seconds = from%seconds
    c%result_bytes = from%result_bytes
  end subroutine

  !> `texts`, WEIR_TEXT_LENGTH + 1 characters for each of operator_config_texts, must live as long as `c` is in use.
  subroutine operator_config_to_c(from, c, texts)
    type(weir_operator_config), intent(in) :: from
    type(c_operator_config), intent(out) :: c
    character(kind=c_char), intent(out), target :: texts(:, :)

    c%struct_size = c_sizeof(c)
    c%division = from%division
    c%variable = merge(1, 0, from%variable)
    c%priority = from%priority
    c%name = c_text(from%name, texts(:, 1))
  end subroutine

  !> `texts`, WEIR_LONG_TEXT_LENGTH + 1 characters for each of optimized_layer_texts, must live as long as `c` is in use.
  subroutine optimized_layer_to_c(from, c, texts)
    type(weir_optimized_layer), intent(in) :: from
    type(c_optimized_layer), intent(out) :: c
    character(kind=c_char), intent(out), target :: texts(:, :)

    c%struct_size = c_sizeof(c)
    c%name = c_text(from%name, texts(:, 1))
    c%count = from%count
    c%excluded = merge(1, 0, from%excluded)
  end subroutine

  !> `texts`, WEIR_TEXT_LENGTH + 1 characters for each of optimizer_config_texts, must live as long as `c` is in use.
  subroutine optimizer_config_to_c(from, c, texts)
    type(weir_optimizer_config), intent(in) :: from
    type(c_optimizer_config), intent(out) :: c
    character(kind=c_char), intent(out), target :: texts(:, :)

    c%struct_size = c_sizeof(c)
    c%rule = from%rule
    c%momentum = from%momentum
    c%weight_decay = from%weight_decay
    c%trust_coefficient = from%trust_coefficient
    c%largest_rate = from%largest_rate
    c%beta1 = from%beta1
    c%beta2 = from%beta2
    c%epsilon = from%epsilon
    c%norms = from%norms
    c%update = from%update
    c%type = from%type
    c%memory = from%memory
    c%priority = from%priority
    c%name = c_text(from%name, texts(:, 1))
  end subroutine

  !> `texts`, WEIR_TEXT_LENGTH + 1 characters for each of sparse_adam_config_texts, must live as long as `c` is in use.
  subroutine sparse_adam_config_to_c(from, c, texts)
    type(weir_sparse_adam_config), intent(in) :: from
    type(c_sparse_adam_config), intent(out) :: c
    character(kind=c_char), intent(out), target :: texts(:, :)

    c%struct_size = c_sizeof(c)
    c%count = from%count
    c%beta1 = from%beta1
    c%beta2 = from%beta2
    c%epsilon = from%epsilon
    c%exact = merge(1, 0, from%exact)
    c%name = c_text(from%name, texts(:, 1))
  end subroutine

  !> `texts`, WEIR_LONG_TEXT_LENGTH + 1 characters for each of sample_cache_config_texts, must live as long as `c` is in use.
  subroutine sample_cache_config_to_c(from, c, texts)
    type(weir_sample_cache_config), intent(in) :: from
    type(c_sample_cache_config), intent(out) :: c
    character(kind=c_char), intent(out), target :: texts(:, :)

    c%struct_size = c_sizeof(c)
    c%folder = c_text(from%folder, texts(:, 1))
    c%folder_bytes = from%folder_bytes
    c%memory_bytes = from%memory_bytes
    c%largest_batch = from%largest_batch
    c%in_flight = from%in_flight
    c%pack_samples = from%pack_samples
    c%threads = from%threads
    c%on_error = from%on_error
    c%retries = from%retries
    c%priority = from%priority
    c%name = c_text(from%name, texts(:, 2))
  end subroutine

  subroutine sample_loader_config_to_c(from, c)
    type(weir_sample_loader_config), intent(in) :: from
    type(c_sample_loader_config), intent(out) :: c

    c%struct_size = c_sizeof(c)
    c%batch = from%batch
    c%seed = from%seed
    c%exchanged_share = from%exchanged_share
    c%shuffle = from%shuffle
    c%progress = from%progress
  end subroutine

  subroutine allreduce_config_from_c(c, to)
    type(c_allreduce_config), intent(in) :: c
    type(weir_allreduce_config), intent(inout) :: to

    to%count = c%count
    to%type = c%type
    to%memory = c%memory
    to%density = c%density
    to%k = c%k
    to%algorithm = text_of(c%algorithm)
    to%algorithm_parameters = text_of(c%algorithm_parameters)
    to%trial_iterations = c%trial_iterations
    to%compressor = text_of(c%compressor)
    to%compressor_parameters = text_of(c%compressor_parameters)
    to%seed = c%seed
    to%error_feedback = c%error_feedback
    to%feedback_decay = c%feedback_decay
    to%feedback_gain = c%feedback_gain
    to%average = c%average /= 0
    to%threshold = text_of(c%threshold)
    to%threshold_parameters = text_of(c%threshold_parameters)
    to%wire_format = c%wire_format
    to%wire_values = c%wire_values
    to%threads = c%threads
    to%non_finite = c%non_finite
    to%dense_iterations = c%dense_iterations
    to%warmup_iterations = c%warmup_iterations
    to%priority = c%priority
    to%name = text_of(c%name)
  end subroutine

  subroutine statistics_from_c(c, to)
    type(c_statistics), intent(in) :: c
    type(weir_statistics), intent(inout) :: to

    to%iteration = c%iteration
    to%k = c%k
    to%selected_local = c%selected_local
    to%selected_global = c%selected_global
    to%payload_bytes_sent = c%payload_bytes_sent
    to%payload_bytes_received = c%payload_bytes_received
    to%control_bytes_sent = c%control_bytes_sent
    to%control_bytes_received = c%control_bytes_received
    to%bytes_sent = c%bytes_sent
    to%bytes_received = c%bytes_received
    to%messages_sent = c%messages_sent
    to%messages_received = c%messages_received
    to%seconds_select = c%seconds_select
    to%seconds_in_node = c%seconds_in_node
    to%seconds_exchange = c%seconds_exchange
    to%seconds_apply = c%seconds_apply
    to%seconds_total = c%seconds_total
    to%seconds_waited = c%seconds_waited
    to%skipped = c%skipped /= 0
  end subroutine

  subroutine algorithm_info_from_c(c, to)
    type(c_algorithm_info), intent(in) :: c
    type(weir_algorithm_info), intent(inout) :: to

    to%name = text_of(c%name)
    to%description = text_of(c%description)
    to%sparse = c%sparse /= 0
    to%host_memory = c%host_memory /= 0
    to%cuda_memory = c%cuda_memory /= 0
    to%packed = c%packed /= 0
    to%parameters = text_of(c%parameters)
    to%counters = text_of(c%counters)
  end subroutine

  subroutine compressor_info_from_c(c, to)
    type(c_compressor_info), intent(in) :: c
    type(weir_compressor_info), intent(inout) :: to

    to%name = text_of(c%name)
    to%description = text_of(c%description)
    to%source = text_of(c%source)
    to%carriage = text_of(c%carriage)
    to%parameters = text_of(c%parameters)
    to%random = c%random /= 0
    to%feedback = c%feedback /= 0
  end subroutine

  subroutine encoded_info_from_c(c, to)
    type(c_encoded_info), intent(in) :: c
    type(weir_encoded_info), intent(inout) :: to

    to%version = c%version
    to%count = c%count
    to%entries = c%entries
    to%bytes = c%bytes
    to%compressor = text_of(c%compressor)
    to%parameters = text_of(c%parameters)
  end subroutine

  subroutine setting_info_from_c(c, to)
    type(c_setting_info), intent(in) :: c
    type(weir_setting_info), intent(inout) :: to

    to%name = text_of(c%name)
    to%value = text_of(c%value)
    to%origin = text_of(c%origin)
    to%description = text_of(c%description)
  end subroutine

  subroutine embedding_config_from_c(c, to)
    type(c_embedding_config), intent(in) :: c
    type(weir_embedding_config), intent(inout) :: to

    to%rows = c%rows
    to%width = c%width
    to%largest_batch = c%largest_batch
    to%memory = c%memory
    to%exchange = text_of(c%exchange)
    to%optimizer = c%optimizer
    to%learning_rate = c%learning_rate
    to%beta1 = c%beta1
    to%beta2 = c%beta2
    to%epsilon = c%epsilon
    to%average = c%average /= 0
    to%wire_values = c%wire_values
    to%routing = c%routing
    to%seed = c%seed
    to%initial_range = c%initial_range
    to%priority = c%priority
    to%delayed_priority = c%delayed_priority
    to%name = text_of(c%name)
  end subroutine

  subroutine embedding_statistics_from_c(c, to)
    type(c_embedding_statistics), intent(in) :: c
    type(weir_embedding_statistics), intent(inout) :: to

    to%tokens = c%tokens
    to%distinct_rows = c%distinct_rows
    to%prior_rows = c%prior_rows
    to%updated_rows = c%updated_rows
    to%prefetched = c%prefetched /= 0
    to%by_node = c%by_node /= 0
    to%id_bytes_sent = c%id_bytes_sent
    to%lookup_bytes_sent = c%lookup_bytes_sent
    to%gradient_bytes_sent = c%gradient_bytes_sent
    to%control_bytes_sent = c%control_bytes_sent
    to%bytes_sent = c%bytes_sent
    to%seconds_lookup = c%seconds_lookup
    to%seconds_coalesce = c%seconds_coalesce
    to%seconds_prior = c%seconds_prior
    to%seconds_update = c%seconds_update
  end subroutine

  subroutine exchange_info_from_c(c, to)
    type(c_exchange_info), intent(in) :: c
    type(weir_exchange_info), intent(inout) :: to

    to%name = text_of(c%name)
    to%description = text_of(c%description)
  end subroutine

  subroutine checkpoint_config_from_c(c, to)
    type(c_checkpoint_config), intent(in) :: c
    type(weir_checkpoint_config), intent(inout) :: to

    to%folder = text_of(c%folder)
    to%run = text_of(c%run)
    to%keep = c%keep
    to%compression = c%compression
    to%strict = c%strict /= 0
    to%name = text_of(c%name)
  end subroutine

  subroutine checkpoint_statistics_from_c(c, to)
    type(c_checkpoint_statistics), intent(in) :: c
    type(weir_checkpoint_statistics), intent(inout) :: to

    to%step = c%step
    to%ranks = c%ranks
    to%snapshot_bytes = c%snapshot_bytes
    to%bytes_written = c%bytes_written
    to%bytes_read = c%bytes_read
    to%seconds_snapshot = c%seconds_snapshot
    to%seconds_save = c%seconds_save
    to%seconds_restore = c%seconds_restore
  end subroutine

  subroutine fused_tensor_from_c(c, to)
    type(c_fused_tensor), intent(in) :: c
    type(weir_fused_tensor), intent(inout) :: to

    to%name = text_of(c%name)
    to%count = c%count
    to%density = c%density
    to%k = c%k
    to%dense = c%dense /= 0
    to%optional = c%optional /= 0
  end subroutine

  subroutine fusion_config_from_c(c, to)
    type(c_fusion_config), intent(in) :: c
    type(weir_fusion_config), intent(inout) :: to

    to%scheme = c%scheme
    to%buffer_bytes = c%buffer_bytes
    to%type = c%type
    to%density = c%density
    to%algorithm = text_of(c%algorithm)
    to%algorithm_parameters = text_of(c%algorithm_parameters)
    to%threshold = text_of(c%threshold)
    to%threshold_parameters = text_of(c%threshold_parameters)
    to%error_feedback = c%error_feedback
    to%average = c%average /= 0
    to%wire_format = c%wire_format
    to%wire_values = c%wire_values
    to%non_finite = c%non_finite
    to%priority = c%priority
    to%name = text_of(c%name)
  end subroutine

  subroutine fusion_statistics_from_c(c, to)
    type(c_fusion_statistics), intent(in) :: c
    type(weir_fusion_statistics), intent(inout) :: to

    to%iteration = c%iteration
    to%exchanges = c%exchanges
    to%tensors_skipped = c%tensors_skipped
    to%tensors_missing = c%tensors_missing
    to%buffers_skipped = c%buffers_skipped
    to%selected_local = c%selected_local
    to%selected_global = c%selected_global
    to%payload_bytes_sent = c%payload_bytes_sent
    to%payload_bytes_received = c%payload_bytes_received
    to%control_bytes_sent = c%control_bytes_sent
    to%control_bytes_received = c%control_bytes_received
    to%bytes_sent = c%bytes_sent
    to%bytes_received = c%bytes_received
    to%messages_sent = c%messages_sent
    to%messages_received = c%messages_received
    to%seconds_select = c%seconds_select
    to%seconds_exchange = c%seconds_exchange
    to%seconds_backward = c%seconds_backward
    to%seconds_waited = c%seconds_waited
    to%seconds_total = c%seconds_total
    to%regroupings = c%regroupings
    to%settled = c%settled /= 0
  end subroutine

  subroutine operator_part_from_c(c, to)
    type(c_operator_part), intent(in) :: c
    type(weir_operator_part), intent(inout) :: to

    to%seconds = c%seconds
    to%result_bytes = c%result_bytes
  end subroutine

  subroutine operator_config_from_c(c, to)
    type(c_operator_config), intent(in) :: c
    type(weir_operator_config), intent(inout) :: to

    to%division = c%division
    to%variable = c%variable /= 0
    to%priority = c%priority
    to%name = text_of(c%name)
  end subroutine

  subroutine operator_statistics_from_c(c, to)
    type(c_operator_statistics), intent(in) :: c
    type(weir_operator_statistics), intent(inout) :: to

    to%runs = c%runs
    to%seconds_work = c%seconds_work
    to%seconds_gather = c%seconds_gather
    to%bytes_sent = c%bytes_sent
    to%bytes_received = c%bytes_received
    to%messages_sent = c%messages_sent
    to%messages_received = c%messages_received
  end subroutine

  subroutine optimized_layer_from_c(c, to)
    type(c_optimized_layer), intent(in) :: c
    type(weir_optimized_layer), intent(inout) :: to

    to%name = text_of(c%name)
    to%count = c%count
    to%excluded = c%excluded /= 0
  end subroutine

  subroutine optimizer_config_from_c(c, to)
    type(c_optimizer_config), intent(in) :: c
    type(weir_optimizer_config), intent(inout) :: to

    to%rule = c%rule
    to%momentum = c%momentum
    to%weight_decay = c%weight_decay
    to%trust_coefficient = c%trust_coefficient
    to%largest_rate = c%largest_rate
    to%beta1 = c%beta1
    to%beta2 = c%beta2
    to%epsilon = c%epsilon
    to%norms = c%norms
    to%update = c%update
    to%type = c%type
    to%memory = c%memory
    to%priority = c%priority
    to%name = text_of(c%name)
  end subroutine

  subroutine optimizer_statistics_from_c(c, to)
    type(c_optimizer_statistics), intent(in) :: c
    type(weir_optimizer_statistics), intent(inout) :: to

    to%steps = c%steps
    to%seconds_norms = c%seconds_norms
    to%seconds_update = c%seconds_update
    to%seconds_gather = c%seconds_gather
  end subroutine

  subroutine sparse_adam_config_from_c(c, to)
    type(c_sparse_adam_config), intent(in) :: c
    type(weir_sparse_adam_config), intent(inout) :: to

    to%count = c%count
    to%beta1 = c%beta1
    to%beta2 = c%beta2
    to%epsilon = c%epsilon
    to%exact = c%exact /= 0
    to%name = text_of(c%name)
  end subroutine

  subroutine sample_cache_config_from_c(c, to)
    type(c_sample_cache_config), intent(in) :: c
    type(weir_sample_cache_config), intent(inout) :: to

    to%folder = text_of(c%folder)
    to%folder_bytes = c%folder_bytes
    to%memory_bytes = c%memory_bytes
    to%largest_batch = c%largest_batch
    to%in_flight = c%in_flight
    to%pack_samples = c%pack_samples
    to%threads = c%threads
    to%on_error = c%on_error
    to%retries = c%retries
    to%priority = c%priority
    to%name = text_of(c%name)
  end subroutine

  subroutine sample_cache_statistics_from_c(c, to)
    type(c_sample_cache_statistics), intent(in) :: c
    type(weir_sample_cache_statistics), intent(inout) :: to

    to%batches = c%batches
    to%asked = c%asked
    to%from_node = c%from_node
    to%from_ranks = c%from_ranks
    to%served = c%served
    to%kept = c%kept
    to%decoded = c%decoded
    to%from_folder = c%from_folder
    to%from_store = c%from_store
    to%folder_bytes_read = c%folder_bytes_read
    to%store_bytes_read = c%store_bytes_read
    to%damaged = c%damaged
    to%retried = c%retried
    to%skipped = c%skipped
    to%seconds_store = c%seconds_store
    to%seconds_folder = c%seconds_folder
    to%seconds_decode = c%seconds_decode
    to%seconds_waited = c%seconds_waited
    to%bytes_sent = c%bytes_sent
    to%bytes_received = c%bytes_received
  end subroutine

  subroutine sample_loader_config_from_c(c, to)
    type(c_sample_loader_config), intent(in) :: c
    type(weir_sample_loader_config), intent(inout) :: to

    to%batch = c%batch
    to%seed = c%seed
    to%exchanged_share = c%exchanged_share
    to%shuffle = c%shuffle
    to%progress = c%progress
  end subroutine

end module
