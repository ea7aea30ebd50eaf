"""The C interface as ctypes sees it.

Made by capi/interface/generate.py from interface.toml and the C headers: change those."""
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import Any, Dict, Tuple

VERSION = (0, 1, 0)
LOG_FUNCTION = CFUNCTYPE(None, c_void_p, c_int32, c_char_p)
OPERATOR_BODY = CFUNCTYPE(c_int64, c_void_p, c_int, c_void_p, c_int64, POINTER(c_char_p))


class weir_allreduce_config(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("count", c_int64),
        ("k", c_int64),
        ("density", c_double),
        ("threshold", c_char_p),
        ("dense_iterations", c_int64),
        ("warmup_iterations", c_int64),
        ("algorithm", c_char_p),
        ("name", c_char_p),
        ("type", c_int32),
        ("non_finite", c_int32),
        ("priority", c_int32),
        ("error_feedback", c_int32),
        ("average", c_int32),
        ("wire_format", c_int32),
        ("wire_values", c_int32),
        ("memory", c_int32),
        ("seed", c_int32),
        ("threads", c_int32),
        ("trial_iterations", c_int64),
        ("compressor", c_char_p),
        ("compressor_parameters", c_char_p),
        ("feedback_decay", c_double),
        ("feedback_gain", c_double),
        ("algorithm_parameters", c_char_p),
        ("threshold_parameters", c_char_p),
    ]


class weir_statistics(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("iteration", c_int64),
        ("k", c_int64),
        ("selected_local", c_int64),
        ("selected_global", c_int64),
        ("payload_bytes_sent", c_int64),
        ("payload_bytes_received", c_int64),
        ("control_bytes_sent", c_int64),
        ("control_bytes_received", c_int64),
        ("bytes_sent", c_int64 * 7),
        ("bytes_received", c_int64 * 7),
        ("messages_sent", c_int64 * 7),
        ("messages_received", c_int64 * 7),
        ("seconds_select", c_double),
        ("seconds_exchange", c_double),
        ("seconds_apply", c_double),
        ("seconds_total", c_double),
        ("seconds_in_node", c_double),
        ("seconds_waited", c_double),
        ("skipped", c_int32),
        ("reserved", c_int32),
    ]


class weir_algorithm_info(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("description", c_char_p),
        ("sparse", c_int32),
        ("host_memory", c_int32),
        ("cuda_memory", c_int32),
        ("packed", c_int32),
        ("parameters", c_char_p),
        ("counters", c_char_p),
    ]


class weir_compressor_info(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("description", c_char_p),
        ("source", c_char_p),
        ("carriage", c_char_p),
        ("parameters", c_char_p),
        ("random", c_int32),
        ("feedback", c_int32),
    ]


class weir_encoded_info(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("version", c_int64),
        ("count", c_int64),
        ("entries", c_int64),
        ("bytes", c_int64),
        ("compressor", c_char_p),
        ("parameters", c_char_p),
    ]


class weir_setting_info(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("value", c_char_p),
        ("origin", c_char_p),
        ("description", c_char_p),
    ]


class weir_embedding_config(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("rows", c_int64),
        ("width", c_int64),
        ("largest_batch", c_int64),
        ("seed", c_int64),
        ("learning_rate", c_double),
        ("beta1", c_double),
        ("beta2", c_double),
        ("epsilon", c_double),
        ("initial_range", c_double),
        ("exchange", c_char_p),
        ("name", c_char_p),
        ("optimizer", c_int32),
        ("wire_values", c_int32),
        ("routing", c_int32),
        ("average", c_int32),
        ("priority", c_int32),
        ("delayed_priority", c_int32),
        ("memory", c_int32),
        ("reserved", c_int32),
    ]


class weir_embedding_statistics(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("tokens", c_int64),
        ("distinct_rows", c_int64),
        ("prior_rows", c_int64),
        ("updated_rows", c_int64),
        ("id_bytes_sent", c_int64),
        ("lookup_bytes_sent", c_int64),
        ("gradient_bytes_sent", c_int64),
        ("control_bytes_sent", c_int64),
        ("bytes_sent", c_int64 * 7),
        ("seconds_lookup", c_double),
        ("seconds_coalesce", c_double),
        ("seconds_prior", c_double),
        ("seconds_update", c_double),
        ("prefetched", c_int32),
        ("by_node", c_int32),
    ]


class weir_exchange_info(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("description", c_char_p),
    ]


class weir_checkpoint_config(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("keep", c_int64),
        ("compression", c_int64),
        ("folder", c_char_p),
        ("run", c_char_p),
        ("name", c_char_p),
        ("strict", c_int32),
        ("reserved", c_int32),
    ]


class weir_checkpoint_statistics(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("step", c_int64),
        ("ranks", c_int64),
        ("snapshot_bytes", c_int64),
        ("bytes_written", c_int64),
        ("bytes_read", c_int64),
        ("seconds_snapshot", c_double),
        ("seconds_save", c_double),
        ("seconds_restore", c_double),
    ]


class weir_fused_tensor(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("count", c_int64),
        ("k", c_int64),
        ("density", c_double),
        ("name", c_char_p),
        ("dense", c_int32),
        ("optional", c_int32),
    ]


class weir_fusion_config(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("density", c_double),
        ("buffer_bytes", c_int64),
        ("threshold", c_char_p),
        ("algorithm", c_char_p),
        ("algorithm_parameters", c_char_p),
        ("name", c_char_p),
        ("scheme", c_int32),
        ("type", c_int32),
        ("wire_format", c_int32),
        ("wire_values", c_int32),
        ("non_finite", c_int32),
        ("error_feedback", c_int32),
        ("average", c_int32),
        ("priority", c_int32),
        ("threshold_parameters", c_char_p),
    ]


class weir_fusion_statistics(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("iteration", c_int64),
        ("exchanges", c_int64),
        ("tensors_skipped", c_int64),
        ("tensors_missing", c_int64),
        ("buffers_skipped", c_int64),
        ("selected_local", c_int64),
        ("selected_global", c_int64),
        ("payload_bytes_sent", c_int64),
        ("payload_bytes_received", c_int64),
        ("control_bytes_sent", c_int64),
        ("control_bytes_received", c_int64),
        ("bytes_sent", c_int64 * 7),
        ("bytes_received", c_int64 * 7),
        ("messages_sent", c_int64 * 7),
        ("messages_received", c_int64 * 7),
        ("seconds_select", c_double),
        ("seconds_exchange", c_double),
        ("seconds_backward", c_double),
        ("seconds_waited", c_double),
        ("seconds_total", c_double),
        ("regroupings", c_int64),
        ("settled", c_int32),
        ("reserved", c_int32),
    ]


class weir_operator_part(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("seconds", c_double),
        ("result_bytes", c_int64),
    ]


class weir_operator_config(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("division", c_int32),
        ("variable", c_int32),
        ("priority", c_int32),
        ("reserved", c_int32),
    ]


class weir_operator_statistics(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("runs", c_int64),
        ("seconds_work", c_double),
        ("seconds_gather", c_double),
        ("bytes_sent", c_int64 * 7),
        ("bytes_received", c_int64 * 7),
        ("messages_sent", c_int64 * 7),
        ("messages_received", c_int64 * 7),
    ]


class weir_optimized_layer(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("count", c_int64),
        ("name", c_char_p),
        ("excluded", c_int32),
        ("reserved", c_int32),
    ]


class weir_optimizer_config(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("momentum", c_double),
        ("weight_decay", c_double),
        ("trust_coefficient", c_double),
        ("largest_rate", c_double),
        ("beta1", c_double),
        ("beta2", c_double),
        ("epsilon", c_double),
        ("name", c_char_p),
        ("rule", c_int32),
        ("norms", c_int32),
        ("update", c_int32),
        ("priority", c_int32),
        ("type", c_int32),
        ("memory", c_int32),
    ]


class weir_optimizer_statistics(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("steps", c_int64),
        ("seconds_norms", c_double),
        ("seconds_update", c_double),
        ("seconds_gather", c_double),
    ]


class weir_sparse_adam_config(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("count", c_int64),
        ("beta1", c_double),
        ("beta2", c_double),
        ("epsilon", c_double),
        ("name", c_char_p),
        ("exact", c_int32),
        ("reserved", c_int32),
    ]


class weir_sample_cache_config(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("folder", c_char_p),
        ("folder_bytes", c_int64),
        ("memory_bytes", c_int64),
        ("largest_batch", c_int64),
        ("in_flight", c_int32),
        ("pack_samples", c_int32),
        ("threads", c_int32),
        ("on_error", c_int32),
        ("retries", c_int32),
        ("priority", c_int32),
        ("name", c_char_p),
    ]


class weir_sample_cache_statistics(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("batches", c_int64),
        ("asked", c_int64),
        ("from_node", c_int64),
        ("from_ranks", c_int64),
        ("served", c_int64),
        ("kept", c_int64),
        ("decoded", c_int64),
        ("from_folder", c_int64),
        ("from_store", c_int64),
        ("folder_bytes_read", c_int64),
        ("store_bytes_read", c_int64),
        ("damaged", c_int64),
        ("retried", c_int64),
        ("skipped", c_int64),
        ("seconds_store", c_double),
        ("seconds_folder", c_double),
        ("seconds_decode", c_double),
        ("seconds_waited", c_double),
        ("bytes_sent", c_int64 * 7),
        ("bytes_received", c_int64 * 7),
    ]


class weir_sample_loader_config(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("batch", c_int64),
        ("seed", c_int64),
        ("exchanged_share", c_double),
        ("shuffle", c_int32),
        ("progress", c_int32),
    ]


class weir_sparse_result(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("count", c_int64),
        ("indices", c_void_p),
        ("values", c_void_p),
    ]


class weir_residual(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("begin", c_int64),
        ("count", c_int64),
        ("values", c_void_p),
    ]


# What each function gives and takes.
FUNCTIONS: Dict[str, Tuple[Any, Tuple[Any, ...]]] = {
    "weir_version": (None, (POINTER(c_int), POINTER(c_int), POINTER(c_int))),
    "weir_status_string": (c_char_p, (c_int,)),
    "weir_last_error": (c_char_p, (c_void_p,)),
    "weir_algorithm_name": (c_char_p, (c_int,)),
    "weir_algorithm": (c_int, (c_int, POINTER(weir_algorithm_info))),
    "weir_compressor_name": (c_char_p, (c_int,)),
    "weir_compressor": (c_int, (c_int, POINTER(weir_compressor_info))),
    "weir_setting": (c_int, (c_int, POINTER(weir_setting_info))),
    "weir_level_name": (c_char_p, (c_int32,)),
    "weir_set_log_function": (c_int, (LOG_FUNCTION, c_void_p)),
    "weir_init": (c_int, ()),
    "weir_finalize": (c_int, ()),
    "weir_mpi_family": (c_char_p, ()),
    "weir_mpi_library": (c_char_p, ()),
    "weir_comm_create_world": (c_int, (POINTER(c_void_p),)),
    "weir_comm_create_fortran": (c_int, (c_int32, POINTER(c_void_p))),
    "weir_comm_rank": (c_int, (c_void_p, POINTER(c_int))),
    "weir_comm_size": (c_int, (c_void_p, POINTER(c_int))),
    "weir_comm_topology": (c_char_p, (c_void_p,)),
    "weir_comm_level": (c_int, (c_void_p, c_int, POINTER(c_int32))),
    "weir_comm_group": (c_int, (c_void_p, c_int32, POINTER(c_int), c_int, POINTER(c_int))),
    "weir_comm_nearest_gpu": (c_int, (c_void_p, POINTER(c_int))),
    "weir_comm_stragglers": (c_int, (c_void_p, c_int, POINTER(c_double), c_int)),
    "weir_comm_broadcast": (c_int, (c_void_p, c_void_p, c_int64, c_int)),
    "weir_comm_allgather": (c_int, (c_void_p, c_void_p, c_int64, c_void_p)),
    "weir_comm_dump": (c_int, (c_void_p, c_char_p)),
    "weir_comm_refuse": (c_int, (c_void_p, c_char_p, c_char_p)),
    "weir_comm_destroy": (c_int, (c_void_p,)),
    "weir_plan_create": (c_int, (c_void_p, POINTER(weir_allreduce_config), POINTER(c_void_p))),
    "weir_plan_destroy": (c_int, (c_void_p,)),
    "weir_plan_run": (c_int, (c_void_p, c_void_p)),
    "weir_plan_run_sparse": (c_int, (c_void_p, c_void_p, POINTER(weir_sparse_result))),
    "weir_plan_start": (c_int, (c_void_p, c_void_p)),
    "weir_plan_start_sparse": (c_int, (c_void_p, c_void_p)),
    "weir_plan_run_on_stream": (c_int, (c_void_p, c_void_p, c_void_p)),
    "weir_plan_run_sparse_on_stream": (c_int, (c_void_p, c_void_p, c_void_p, POINTER(weir_sparse_result))),
    "weir_plan_start_on_stream": (c_int, (c_void_p, c_void_p, c_void_p)),
    "weir_plan_start_sparse_on_stream": (c_int, (c_void_p, c_void_p, c_void_p)),
    "weir_plan_test": (c_int, (c_void_p, POINTER(c_int))),
    "weir_plan_wait": (c_int, (c_void_p,)),
    "weir_plan_wait_for": (c_int, (c_void_p, c_double, POINTER(c_int))),
    "weir_plan_sparse_result": (c_int, (c_void_p, POINTER(weir_sparse_result))),
    "weir_plan_get_statistics": (c_int, (c_void_p, POINTER(weir_statistics))),
    "weir_plan_counter": (c_int, (c_void_p, c_char_p, POINTER(c_int64))),
    "weir_plan_residual": (c_int, (c_void_p, POINTER(weir_residual))),
    "weir_plan_get_config": (c_int, (c_void_p, POINTER(weir_allreduce_config))),
    "weir_plan_memory_bytes": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_plan_state_bytes": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_plan_save_state": (c_int, (c_void_p, c_void_p, c_int64)),
    "weir_plan_restore_state": (c_int, (c_void_p, c_void_p, c_int64)),
    "weir_plan_encoded_bytes": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_plan_encode": (c_int, (c_void_p, c_void_p, c_void_p, c_int64, POINTER(c_int64))),
    "weir_encoded_inspect": (c_int, (c_void_p, c_int64, POINTER(weir_encoded_info))),
    "weir_decode": (c_int, (c_void_p, c_int64, c_void_p, c_int64, c_int32)),
    "weir_plan_explanation": (c_char_p, (c_void_p,)),
    "weir_plan_reset": (c_int, (c_void_p,)),
    "weir_plan_scale_residual": (c_int, (c_void_p, c_double)),
    "weir_schedule_create": (c_int, (c_void_p, POINTER(c_char_p), c_int, POINTER(c_void_p))),
    "weir_schedule_destroy": (c_int, (c_void_p,)),
    "weir_schedule_priority": (c_int, (c_void_p, c_char_p, POINTER(c_int))),
    "weir_schedule_started": (c_int, (c_void_p, c_char_p, c_void_p)),
    "weir_schedule_test": (c_int, (c_void_p, c_char_p, POINTER(c_int))),
    "weir_schedule_wait": (c_int, (c_void_p, c_char_p)),
    "weir_schedule_wait_all": (c_int, (c_void_p,)),
    "weir_schedule_pending": (c_int, (c_void_p, c_char_p, POINTER(c_int))),
    "weir_exchange_name": (c_char_p, (c_int,)),
    "weir_exchange": (c_int, (c_int, POINTER(weir_exchange_info))),
    "weir_embedding_create": (c_int, (c_void_p, POINTER(weir_embedding_config), POINTER(c_void_p))),
    "weir_embedding_destroy": (c_int, (c_void_p,)),
    "weir_embedding_lookup_int32": (c_int, (c_void_p, c_void_p, c_int64, c_void_p)),
    "weir_embedding_lookup_int64": (c_int, (c_void_p, c_void_p, c_int64, c_void_p)),
    "weir_embedding_lookup_test": (c_int, (c_void_p, POINTER(c_int))),
    "weir_embedding_lookup_wait": (c_int, (c_void_p,)),
    "weir_embedding_lookup_wait_for": (c_int, (c_void_p, c_double, POINTER(c_int))),
    "weir_embedding_prefetch_int32": (c_int, (c_void_p, c_void_p, c_int64)),
    "weir_embedding_prefetch_int64": (c_int, (c_void_p, c_void_p, c_int64)),
    "weir_embedding_prefetch_test": (c_int, (c_void_p, POINTER(c_int))),
    "weir_embedding_prefetch_wait": (c_int, (c_void_p,)),
    "weir_embedding_prefetch_wait_for": (c_int, (c_void_p, c_double, POINTER(c_int))),
    "weir_embedding_update": (c_int, (c_void_p, c_void_p, c_int64)),
    "weir_embedding_update_test": (c_int, (c_void_p, POINTER(c_int))),
    "weir_embedding_update_wait": (c_int, (c_void_p,)),
    "weir_embedding_update_wait_for": (c_int, (c_void_p, c_double, POINTER(c_int))),
    "weir_embedding_lookup_int32_on_stream": (c_int, (c_void_p, c_void_p, c_int64, c_void_p, c_void_p)),
    "weir_embedding_lookup_int64_on_stream": (c_int, (c_void_p, c_void_p, c_int64, c_void_p, c_void_p)),
    "weir_embedding_prefetch_int32_on_stream": (c_int, (c_void_p, c_void_p, c_int64, c_void_p)),
    "weir_embedding_prefetch_int64_on_stream": (c_int, (c_void_p, c_void_p, c_int64, c_void_p)),
    "weir_embedding_update_on_stream": (c_int, (c_void_p, c_void_p, c_int64, c_void_p)),
    "weir_embedding_set_learning_rate": (c_int, (c_void_p, c_double)),
    "weir_embedding_export_rows": (c_int, (c_void_p, c_int64, c_int64, c_void_p)),
    "weir_embedding_import_rows": (c_int, (c_void_p, c_int64, c_int64, c_void_p)),
    "weir_embedding_get_config": (c_int, (c_void_p, POINTER(weir_embedding_config))),
    "weir_embedding_memory_bytes": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_embedding_state_bytes": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_embedding_save_state": (c_int, (c_void_p, c_void_p, c_int64)),
    "weir_embedding_restore_state": (c_int, (c_void_p, c_void_p, c_int64)),
    "weir_embedding_get_statistics": (c_int, (c_void_p, POINTER(weir_embedding_statistics))),
    "weir_checkpoint_create": (c_int, (c_void_p, POINTER(weir_checkpoint_config), POINTER(c_void_p))),
    "weir_checkpoint_destroy": (c_int, (c_void_p,)),
    "weir_checkpoint_add_plan": (c_int, (c_void_p, c_char_p, c_void_p)),
    "weir_checkpoint_add_embedding": (c_int, (c_void_p, c_char_p, c_void_p)),
    "weir_checkpoint_add_fused": (c_int, (c_void_p, c_char_p, c_void_p)),
    "weir_checkpoint_add_optimizer": (c_int, (c_void_p, c_char_p, c_void_p)),
    "weir_checkpoint_add_sparse_adam": (c_int, (c_void_p, c_char_p, c_void_p)),
    "weir_checkpoint_add_schedule": (c_int, (c_void_p, c_char_p, c_void_p)),
    "weir_checkpoint_add_array": (c_int, (c_void_p, c_char_p, c_void_p, c_int32, c_int32, c_int64, c_int64, c_int64)),
    "weir_checkpoint_set_integer": (c_int, (c_void_p, c_char_p, c_int64)),
    "weir_checkpoint_set_real": (c_int, (c_void_p, c_char_p, c_double)),
    "weir_checkpoint_set_text": (c_int, (c_void_p, c_char_p, c_char_p)),
    "weir_checkpoint_get_integer": (c_int, (c_void_p, c_char_p, POINTER(c_int64))),
    "weir_checkpoint_get_real": (c_int, (c_void_p, c_char_p, POINTER(c_double))),
    "weir_checkpoint_get_text": (c_int, (c_void_p, c_char_p, POINTER(c_char_p))),
    "weir_checkpoint_save": (c_int, (c_void_p, c_int64)),
    "weir_checkpoint_test": (c_int, (c_void_p, POINTER(c_int))),
    "weir_checkpoint_wait": (c_int, (c_void_p,)),
    "weir_checkpoint_wait_for": (c_int, (c_void_p, c_double, POINTER(c_int))),
    "weir_checkpoint_restore": (c_int, (c_void_p, c_int64, POINTER(c_int64))),
    "weir_checkpoint_steps": (c_int, (c_void_p, POINTER(c_int64), c_int, POINTER(c_int))),
    "weir_checkpoint_catch_signal": (c_int, (c_int,)),
    "weir_checkpoint_stop_requested": (c_int, (c_void_p, POINTER(c_int))),
    "weir_checkpoint_get_statistics": (c_int, (c_void_p, POINTER(weir_checkpoint_statistics))),
    "weir_checkpoint_get_config": (c_int, (c_void_p, POINTER(weir_checkpoint_config))),
    "weir_fused_create": (c_int, (c_void_p, POINTER(weir_fusion_config), POINTER(weir_fused_tensor), c_int, POINTER(c_void_p))),
    "weir_fused_destroy": (c_int, (c_void_p,)),
    "weir_fused_ready": (c_int, (c_void_p, c_int, c_void_p, c_int64)),
    "weir_fused_skip": (c_int, (c_void_p, c_int, c_void_p, c_int64)),
    "weir_fused_progress": (c_int, (c_void_p,)),
    "weir_fused_test": (c_int, (c_void_p, c_int, POINTER(c_int))),
    "weir_fused_wait": (c_int, (c_void_p, c_int)),
    "weir_fused_wait_for": (c_int, (c_void_p, c_int, c_double, POINTER(c_int))),
    "weir_fused_wait_all": (c_int, (c_void_p,)),
    "weir_fused_find_tensor": (c_int, (c_void_p, c_char_p, POINTER(c_int))),
    "weir_fused_buffer_of": (c_int, (c_void_p, c_int, POINTER(c_int))),
    "weir_fused_residual": (c_int, (c_void_p, c_int, POINTER(weir_residual))),
    "weir_fused_get_statistics": (c_int, (c_void_p, POINTER(weir_fusion_statistics))),
    "weir_fused_get_config": (c_int, (c_void_p, POINTER(weir_fusion_config))),
    "weir_fused_explanation": (c_char_p, (c_void_p,)),
    "weir_fused_memory_bytes": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_fused_state_bytes": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_fused_save_state": (c_int, (c_void_p, c_void_p, c_int64)),
    "weir_fused_restore_state": (c_int, (c_void_p, c_void_p, c_int64)),
    "weir_fused_reset": (c_int, (c_void_p,)),
    "weir_fused_scale_residuals": (c_int, (c_void_p, c_double)),
    "weir_operator_create": (c_int, (c_void_p, POINTER(weir_operator_config), POINTER(weir_operator_part), c_int, POINTER(c_void_p))),
    "weir_operator_destroy": (c_int, (c_void_p,)),
    "weir_operator_run": (c_int, (c_void_p, OPERATOR_BODY, c_void_p, c_void_p, c_int64)),
    "weir_operator_start": (c_int, (c_void_p, OPERATOR_BODY, c_void_p, c_void_p, c_int64)),
    "weir_operator_refuse": (c_int, (c_void_p, c_char_p)),
    "weir_operator_test": (c_int, (c_void_p, POINTER(c_int))),
    "weir_operator_wait": (c_int, (c_void_p,)),
    "weir_operator_wait_for": (c_int, (c_void_p, c_double, POINTER(c_int))),
    "weir_operator_bytes": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_operator_offset": (c_int, (c_void_p, c_int, POINTER(c_int64))),
    "weir_operator_result_bytes": (c_int, (c_void_p, c_int, POINTER(c_int64))),
    "weir_operator_works_on": (c_int, (c_void_p, c_int, POINTER(c_int))),
    "weir_operator_get_statistics": (c_int, (c_void_p, POINTER(weir_operator_statistics))),
    "weir_operator_get_config": (c_int, (c_void_p, POINTER(weir_operator_config))),
    "weir_operator_explanation": (c_char_p, (c_void_p,)),
    "weir_operator_memory_bytes": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_optimizer_create": (c_int, (c_void_p, POINTER(weir_optimizer_config), POINTER(weir_optimized_layer), c_int, POINTER(c_void_p))),
    "weir_optimizer_destroy": (c_int, (c_void_p,)),
    "weir_optimizer_step": (c_int, (c_void_p, c_void_p, c_void_p, c_int, c_double)),
    "weir_optimizer_step_on_stream": (c_int, (c_void_p, c_void_p, c_void_p, c_int, c_double, c_void_p)),
    "weir_optimizer_refuse": (c_int, (c_void_p, c_char_p)),
    "weir_optimizer_rates": (c_int, (c_void_p, POINTER(c_double), c_int)),
    "weir_optimizer_get_statistics": (c_int, (c_void_p, POINTER(weir_optimizer_statistics))),
    "weir_optimizer_get_config": (c_int, (c_void_p, POINTER(weir_optimizer_config))),
    "weir_optimizer_explanation": (c_char_p, (c_void_p,)),
    "weir_optimizer_memory_bytes": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_optimizer_state_bytes": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_optimizer_save_state": (c_int, (c_void_p, c_void_p, c_int64)),
    "weir_optimizer_restore_state": (c_int, (c_void_p, c_void_p, c_int64)),
    "weir_optimizer_reset": (c_int, (c_void_p,)),
    "weir_sparse_adam_create": (c_int, (POINTER(weir_sparse_adam_config), POINTER(c_void_p))),
    "weir_sparse_adam_destroy": (c_int, (c_void_p,)),
    "weir_sparse_adam_step": (c_int, (c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_int64, c_double)),
    "weir_sparse_adam_step_part": (c_int, (c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_int64, c_double)),
    "weir_sparse_adam_steps": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_sparse_adam_get_config": (c_int, (c_void_p, POINTER(weir_sparse_adam_config))),
    "weir_sparse_adam_memory_bytes": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_sparse_adam_state_bytes": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_sparse_adam_save_state": (c_int, (c_void_p, c_void_p, c_int64)),
    "weir_sparse_adam_restore_state": (c_int, (c_void_p, c_void_p, c_int64)),
    "weir_sparse_adam_reset": (c_int, (c_void_p,)),
    "weir_source_create_records": (c_int, (c_char_p, c_int64, c_int64, POINTER(c_void_p))),
    "weir_source_create_idx": (c_int, (c_char_p, c_char_p, POINTER(c_void_p))),
    "weir_source_create_npy": (c_int, (c_char_p, c_char_p, POINTER(c_void_p))),
    "weir_source_create_hdf5": (c_int, (c_char_p, c_char_p, c_char_p, POINTER(c_void_p))),
    "weir_source_create_jpeg": (c_int, (c_char_p, c_int, c_int, POINTER(c_void_p))),
    "weir_source_create": (c_int, (c_void_p, c_void_p, POINTER(c_void_p))),
    "weir_source_append": (c_int, (c_void_p, c_int64, c_void_p)),
    "weir_source_fail": (c_int, (c_void_p, c_char_p)),
    "weir_source_destroy": (c_int, (c_void_p,)),
    "weir_source_close": (c_int, (c_void_p,)),
    "weir_source_size": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_source_value_bytes": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_source_identity": (c_char_p, (c_void_p,)),
    "weir_source_layout": (c_char_p, (c_void_p,)),
    "weir_source_get": (c_int, (c_void_p, c_int64, c_void_p, POINTER(c_int64))),
    "weir_cache_create": (c_int, (c_void_p, POINTER(weir_sample_cache_config), c_void_p, POINTER(c_void_p))),
    "weir_cache_destroy": (c_int, (c_void_p,)),
    "weir_cache_get": (c_int, (c_void_p, c_void_p, c_int64, c_void_p, POINTER(c_int64))),
    "weir_cache_start": (c_int, (c_void_p, c_void_p, c_int64, c_void_p, POINTER(c_int64), POINTER(c_int64))),
    "weir_cache_refuse": (c_int, (c_void_p, c_char_p, POINTER(c_int64))),
    "weir_cache_test": (c_int, (c_void_p, c_int64, POINTER(c_int))),
    "weir_cache_wait": (c_int, (c_void_p, c_int64)),
    "weir_cache_wait_for": (c_int, (c_void_p, c_int64, c_double, POINTER(c_int))),
    "weir_cache_size": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_cache_value_bytes": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_cache_owner": (c_int, (c_void_p, c_int64, POINTER(c_int))),
    "weir_cache_get_statistics": (c_int, (c_void_p, POINTER(weir_sample_cache_statistics))),
    "weir_cache_get_config": (c_int, (c_void_p, POINTER(weir_sample_cache_config))),
    "weir_cache_explanation": (c_char_p, (c_void_p,)),
    "weir_cache_memory_bytes": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_loader_create": (c_int, (c_void_p, POINTER(weir_sample_loader_config), POINTER(c_void_p))),
    "weir_loader_destroy": (c_int, (c_void_p,)),
    "weir_loader_next": (c_int, (c_void_p, c_void_p, POINTER(c_int))),
    "weir_loader_epoch": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_loader_step": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_loader_steps": (c_int, (c_void_p, POINTER(c_int64))),
    "weir_loader_position": (c_char_p, (c_void_p,)),
    "weir_loader_seek": (c_int, (c_void_p, c_char_p)),
    "weir_loader_get_config": (c_int, (c_void_p, POINTER(weir_sample_loader_config))),
}
