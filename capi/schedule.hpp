// schedule.hpp: what a weir_schedule is.
#pragma once

#include <weir/schedule.hpp>

#include "shim.hpp"

struct weir_schedule {
  weir_comm* comm;
  weir::StepSchedule schedule;
};
