// schedule.hpp: the struct behind a weir_schedule.
#pragma once

#include <weir/schedule.hpp>

#include "shim.hpp"

struct weir_schedule {
  weir_comm* comm;
  weir::StepSchedule schedule;
};
