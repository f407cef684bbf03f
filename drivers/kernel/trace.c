// SPDX-License-Identifier: GPL-2.0
/* The tracepoints of trace.h, and for each a function that trace.rs calls. */
#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include "trace.h"
