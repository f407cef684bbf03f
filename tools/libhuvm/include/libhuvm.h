/* SPDX-License-Identifier: GPL-2.0 */
/*
 * libhuvm: managed memory and workloads of huvm from C.
 *
 * Build the library with
 *	cargo rustc --release -p libhuvm --features capi --crate-type staticlib     (target/release/liblibhuvm.a)
 * and link with -lpthread -ldl -lm. Structs and constants are those of uapi/huvm.h.
 *
 * Every call that returns int returns 0, or a negative errno. A handle may be used from several threads; it must not be
 * closed, and memory must not be freed, while another call uses it.
 */
#ifndef LIBHUVM_H
#define LIBHUVM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct huvm_instr;
struct huvm_wait;

/* An open /dev/huvm: one address space. */
typedef struct libhuvm libhuvm;

/* Opens /dev/huvm. -ENOENT: not loaded; -EACCES; -EPROTO: other interface version. */
int libhuvm_open(libhuvm **out);
/* Closes it. Unmap memory and wait for launches first. NULL is fine. */
void libhuvm_close(libhuvm *h);
/* The descriptor, for the calls of uapi/huvm.h that this library does not wrap. */
int libhuvm_fd(const libhuvm *h);
/* Number of GPUs: highest index plus one, or a negative errno. */
int libhuvm_gpu_count(const libhuvm *h);
/* Registers a GPU with this space. -ENODEV, -EEXIST, -EIO, -ENOSPC, -ENOMEM. */
int libhuvm_register(libhuvm *h, uint32_t gpu);
/* Maps managed memory; bytes is a multiple of 4 KiB. */
int libhuvm_alloc(libhuvm *h, uint64_t bytes, void **out);
/* Unmaps it; the same size as at alloc. No launch may still use it. */
int libhuvm_free(void *memory, uint64_t bytes);
/* Moves pages to a GPU index, or to 0xffffffff for the host. */
int libhuvm_migrate(libhuvm *h, const void *memory, uint64_t bytes, uint32_t place);
/* z = x + y over bytes of 64-bit words, a multiple of blocks * 64 KiB; waits for the end. */
int libhuvm_vector_add(libhuvm *h, uint32_t gpu, uint32_t blocks, uint64_t *z, const uint64_t *x, const uint64_t *y,
		       uint64_t bytes);
/*
 * Runs a program of 1 to 16 instructions (Documentation/device.md 2.3) and waits for its end; *result is filled unless an
 * errno says that there is none. -EIO when the launch failed or was aborted: result->status and result->error say why.
 */
int libhuvm_run(libhuvm *h, uint32_t gpu, uint32_t blocks, uint32_t elem_bytes, const struct huvm_instr *program,
		size_t instructions, struct huvm_wait *result);
/* Text for a negative errno of this library, in a static string. */
const char *libhuvm_hint(int err);

#ifdef __cplusplus
}
#endif
#endif /* LIBHUVM_H */
