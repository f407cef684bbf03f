/* SPDX-License-Identifier: GPL-2.0 */
#include "trace/trace-hw_misc_huvm.h"
