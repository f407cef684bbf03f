/* SPDX-License-Identifier: GPL-2.0 */
/* What bindgen reads for drivers/kernel/ffi.rs: the shim, the tracepoints and the user interface. */
#include "shim.h"
#include "trace.h"
#include "../../uapi/huvm.h"
#include "../../uapi/huvm_test.h"

/* What tells a call: type and number. How large a caller's struct is does not make it another one. */
#define CMD_BITS (_IOC_TYPEMASK << _IOC_TYPESHIFT | _IOC_NRMASK << _IOC_NRSHIFT)
static const __u32 HUVM_CMD_BITS = CMD_BITS;
/* bindgen cannot evaluate the _IOWR macros; constants it can. */
#define HUVM_CMD(name) static const __u32 HUVM_CMD_##name = HUVM_IOC_##name & CMD_BITS
HUVM_CMD(VERSION);
HUVM_CMD(GPU_INFO);
HUVM_CMD(LINK_INFO);
HUVM_CMD(MEM_INFO);
HUVM_CMD(LEND_INFO);
HUVM_CMD(GPU_HEALTH);
HUVM_CMD(GPU_REGISTER);
HUVM_CMD(GPU_UNREGISTER);
HUVM_CMD(MIGRATE);
HUVM_CMD(ADVISE);
HUVM_CMD(LAUNCH);
HUVM_CMD(WAIT);
HUVM_CMD(ABORT);
HUVM_CMD(KNOB);
HUVM_CMD(POLICY_GET);
HUVM_CMD(POLICY_SET);
HUVM_CMD(PRESET_GET);
HUVM_CMD(PRESET_SET);
HUVM_CMD(COUNTERS);
HUVM_CMD(LATENCY);
HUVM_CMD(EVENTS);
HUVM_CMD(CLIENT_INFO);
HUVM_CMD(RANGE_INFO);
HUVM_CMD(TEST_REG);
HUVM_CMD(TEST_SELFTEST);
HUVM_CMD(TEST_EVICT);
HUVM_CMD(TEST_LIMITS);
HUVM_CMD(TEST_FAIL);
