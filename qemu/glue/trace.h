#include "trace/trace-hw_misc_huvm.h"
