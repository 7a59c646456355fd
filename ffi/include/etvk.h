#ifndef ETVK_H
#define ETVK_H

/* Made from crates/capi by cbindgen; do not edit. `ETVK_BLESS=1 cargo test -p etvk-capi --test header` rewrites it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Version of this interface. It grows when a function or structure changes in a way that old callers would notice;
// compare it with `etvk_abi_version()` after loading the library at run time.
#define ETVK_ABI_VERSION 1

// Bytes that are enough for the text of any option, its NUL included.
#define ETVK_OPTION_TEXT 4096

// What a function returns: ExecuTorch's numeric error codes. A callback that fails returns one of these as well, and
// the function that called it returns the same; a number that is none of them becomes INTERNAL.
enum EtvkStatus
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // All is well.
  ETVK_STATUS_OK = 0,
  // The device was lost, the driver failed in an unexpected way, or this library has a fault (a panic).
  ETVK_STATUS_INTERNAL = 1,
  // The delegate failed inside an earlier execution, or is executing further up this thread's stack.
  ETVK_STATUS_INVALID_STATE = 2,
  // Never this library's own.
  ETVK_STATUS_END_OF_METHOD = 3,
  // Never this library's own.
  ETVK_STATUS_ALREADY_LOADED = 4,
  // No Vulkan loader, no device that matches, or one that lacks a feature or has a limit that is too low.
  ETVK_STATUS_NOT_SUPPORTED = 16,
  // Never this library's own.
  ETVK_STATUS_NOT_IMPLEMENTED = 17,
  // Arguments, sizes, element types, strides, options or compile specs that do not fit; a 64-bit integer or a double
  // that does not fit the graph's 32 bits; an index out of range; a null pointer where one is needed.
  ETVK_STATUS_INVALID_ARGUMENT = 18,
  // Never this library's own.
  ETVK_STATUS_INVALID_TYPE = 19,
  // The payload calls operators that this library does not have. The error text lists all of them.
  ETVK_STATUS_OPERATOR_MISSING = 20,
  // Never this library's own.
  ETVK_STATUS_REGISTRATION_EXCEEDING_MAX_KERNELS = 21,
  // Never this library's own.
  ETVK_STATUS_REGISTRATION_ALREADY_REGISTERED = 22,
  // Named data lacks a constant, or there is none; or no option has that name.
  ETVK_STATUS_NOT_FOUND = 32,
  // Out of host memory.
  ETVK_STATUS_MEMORY_ALLOCATION_FAILED = 33,
  // A file cannot be read (`etvk_check` alone).
  ETVK_STATUS_ACCESS_FAILED = 34,
  // A malformed program (`etvk_check` alone).
  ETVK_STATUS_INVALID_PROGRAM = 35,
  // A malformed `.ptd` file (`etvk_check` alone).
  ETVK_STATUS_INVALID_EXTERNAL_DATA = 36,
  // Never this library's own.
  ETVK_STATUS_OUT_OF_RESOURCES = 37,
  // A malformed payload, one that uses an operator in a way that is not supported, or a constant that is too short.
  ETVK_STATUS_DELEGATE_INVALID_COMPATIBILITY = 48,
  // Out of device memory.
  ETVK_STATUS_DELEGATE_MEMORY_ALLOCATION_FAILED = 49,
  // A null or destroyed handle, or something that never was one.
  ETVK_STATUS_DELEGATE_INVALID_HANDLE = 50,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EtvkStatus EtvkStatus;
#else
typedef uint32_t EtvkStatus;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What an argument is.
enum EtvkArgTag
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // `tensor`.
  ETVK_ARG_TAG_TENSOR = 1,
  // `int_value`.
  ETVK_ARG_TAG_INT = 2,
  // Anything else. No delegate takes it; it is here so that callers can pass on what they were given.
  ETVK_ARG_TAG_OTHER = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EtvkArgTag EtvkArgTag;
#else
typedef uint32_t EtvkArgTag;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What kind of value an option has.
enum EtvkOptionKind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // `int_value` is 0 or 1.
  ETVK_OPTION_KIND_BOOL = 1,
  // `int_value`.
  ETVK_OPTION_KIND_INT = 2,
  // `text_value`.
  ETVK_OPTION_KIND_TEXT = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EtvkOptionKind EtvkOptionKind;
#else
typedef uint32_t EtvkOptionKind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Element types, numbered as in ExecuTorch. Tensors of other types than these do not cross into a delegate.
enum EtvkScalarType
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // uint8
  ETVK_SCALAR_TYPE_BYTE = 0,
  // int8
  ETVK_SCALAR_TYPE_CHAR = 1,
  // int32
  ETVK_SCALAR_TYPE_INT = 3,
  // int64
  ETVK_SCALAR_TYPE_LONG = 4,
  // float16
  ETVK_SCALAR_TYPE_HALF = 5,
  // float32
  ETVK_SCALAR_TYPE_FLOAT = 6,
  // float64
  ETVK_SCALAR_TYPE_DOUBLE = 7,
  // bool, one byte
  ETVK_SCALAR_TYPE_BOOL = 11,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EtvkScalarType EtvkScalarType;
#else
typedef int32_t EtvkScalarType;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Whether a tensor can be resized, numbered as in ExecuTorch. The library does not decide by it, the resize callback
// does; it is part of messages.
enum EtvkDynamism
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Never.
  ETVK_DYNAMISM_STATIC = 0,
  // Within the memory it has.
  ETVK_DYNAMISM_BOUND = 1,
  // Freely.
  ETVK_DYNAMISM_UNBOUND = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EtvkDynamism EtvkDynamism;
#else
typedef uint32_t EtvkDynamism;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How important a log message is. Lower numbers matter more.
enum EtvkLogLevel
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // What made a function fail.
  ETVK_LOG_LEVEL_ERROR = 1,
  // Something is not as it should be; work goes on.
  ETVK_LOG_LEVEL_WARN = 2,
  // Rare and of general interest.
  ETVK_LOG_LEVEL_INFO = 3,
  // What is loaded, planned and executed.
  ETVK_LOG_LEVEL_DEBUG = 4,
  // Everything.
  ETVK_LOG_LEVEL_TRACE = 5,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EtvkLogLevel EtvkLogLevel;
#else
typedef uint32_t EtvkLogLevel;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What kind of device it is.
enum EtvkDeviceKind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // None of the others.
  ETVK_DEVICE_KIND_OTHER = 0,
  // A GPU that shares the host's memory.
  ETVK_DEVICE_KIND_INTEGRATED = 1,
  // A GPU with memory of its own.
  ETVK_DEVICE_KIND_DISCRETE = 2,
  // A GPU handed to a virtual machine.
  ETVK_DEVICE_KIND_VIRTUAL = 3,
  // The host's processor.
  ETVK_DEVICE_KIND_CPU = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EtvkDeviceKind EtvkDeviceKind;
#else
typedef uint32_t EtvkDeviceKind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A delegate on its device. What a pointer to it points at is none of the caller's business: the library checks every
// handle that it is given, also destroyed ones.
typedef struct EtvkDelegate EtvkDelegate;

// Takes log messages: `level` is an `EtvkLogLevel`, `message` NUL-terminated UTF-8 that is valid during the call. It may
// be called from any thread that is in a function of this library.
typedef void (*EtvkLog)(void *context, uint32_t level, const char *message);

// A device that is there, before it is opened.
typedef struct EtvkDeviceInfo {
  // Place in the list, for the option `device`.
  uint32_t index;
  // An `EtvkDeviceKind`.
  uint32_t kind;
  // PCI vendor id, or a Khronos one.
  uint32_t vendor_id;
  // The vendor's id for the device.
  uint32_t device_id;
  // Vulkan version that it speaks: 1.1 and later can be used.
  uint32_t version_major;
  // Vulkan version that it speaks.
  uint32_t version_minor;
  // The driver's name for it, NUL-terminated UTF-8, valid during the call.
  const char *name;
} EtvkDeviceInfo;

// Told of one device after the other by `etvk_devices`.
typedef void (*EtvkVisitDevice)(void *context, const struct EtvkDeviceInfo *device);

// Told a text, NUL-terminated UTF-8 that is valid during the call.
typedef void (*EtvkVisitText)(void *context, const char *text);

// An option of the process (`etvk_option_set`) or of one delegate (a runtime spec of `EtvkCreateInfo`, which goes
// first). Options are read when a delegate is created; a change does not touch delegates that exist.
//
// | key | kind | default | meaning |
// | --- | --- | --- | --- |
// | `device` | text or int | `""` | which device: its place in the list of `etvk_devices` (an int, or text of digits), or text that its name contains, in whatever case; `""` is the best one: discrete before integrated before virtual before CPU |
// | `pipeline_cache_path` | text | `""` | file that compiled pipelines are kept in between runs; read when the device is opened, written when a delegate is destroyed; `""` for none |
// | `profile` | bool | false | measure the GPU time of every dispatch, for `EtvkEvents.log`; an ExecuTorch backend turns it on when it is given an event tracer |
// | `submit_budget_us` | int | 0 | split submissions so that none runs much longer than so many microseconds, for drivers that stop long ones; 0 never splits. It is an estimate: a dispatch is taken for 50 us, so 10000 splits after 200 dispatches, and one long dispatch is not split |
//
// Delegates with the same `device`, `pipeline_cache_path` and `submit_budget_us` share a device, its pipelines, and
// constants that are named by the hash of their contents.
//
// Unknown keys are NOT_FOUND in `etvk_option_set` and `etvk_option_get`, and ignored among runtime specs, which may be
// meant for other versions.
typedef struct EtvkOption {
  // Name, NUL-terminated.
  const char *key;
  // An `EtvkOptionKind`.
  uint32_t kind;
  // Value of the kinds BOOL and INT.
  int64_t int_value;
  // Value of the kind TEXT, NUL-terminated UTF-8.
  const char *text_value;
} EtvkOption;

// Bytes that a callback hands over, and how to give them back.
typedef struct EtvkBlob {
  // The bytes; may be null if there are none.
  const void *data;
  // Number of bytes.
  size_t len;
  // Passed to `release`.
  void *owner;
  // Called once when the bytes are not needed any more; may be null.
  void (*release)(void *owner);
} EtvkBlob;

// A compile spec of the program: a key and bytes. `storage_type_override` and `memory_layout_override` (4 bytes each),
// `require_dynamic_shapes` and `warmup_execute_after_compile` (1 byte each) must have their sizes; as to layouts and
// warm-up this library decides for itself. Other keys are ignored.
typedef struct EtvkCompileSpec {
  // Name, NUL-terminated.
  const char *key;
  // The bytes; may be null if there are none.
  const void *value;
  // Number of bytes.
  size_t value_len;
} EtvkCompileSpec;

// Where constants outside the payload are looked up.
typedef struct EtvkNamedData {
  // Passed to `get`. Delegates with the same context and the same method name count as parts of one program.
  void *context;
  // Gives the bytes that are stored under a key of `key_len` bytes, which is not NUL-terminated. Returns OK after
  // filling `blob`; NOT_FOUND when there is no such key; another `EtvkStatus` when reading fails. Called only while
  // the delegate is created, at most once a key, on the thread that creates it; what it gave is released before
  // `etvk_delegate_create` returns. Null when there is no named data.
  uint32_t (*get)(void *context, const char *key, size_t key_len, struct EtvkBlob *blob);
} EtvkNamedData;

// What `etvk_delegate_create` needs. Set it all to zero, then `struct_size`, then what is there.
//
// Everything it points to is only read during the call, but for the payload of a successful call, which is released.
typedef struct EtvkCreateInfo {
  // `sizeof(EtvkCreateInfo)`; a later version may append fields.
  size_t struct_size;
  // The payload that the program holds for the delegate. On success it is released, once, before the call returns:
  // the library keeps no pointer into it. On failure it is not released and stays the caller's.
  struct EtvkBlob payload;
  // Compile specs of the delegate; may be null if there are none.
  const struct EtvkCompileSpec *compile_specs;
  // Their number.
  size_t compile_spec_count;
  // Options of this delegate alone; may be null if there are none.
  const struct EtvkOption *runtime_specs;
  // Their number.
  size_t runtime_spec_count;
  // Name of the method that the delegate belongs to, for messages; NUL-terminated, may be null.
  const char *method_name;
  // Constants outside the payload.
  struct EtvkNamedData named_data;
} EtvkCreateInfo;

// A tensor of the caller. The element at index (i, j, ...) is at `data + (i * strides[0] + j * strides[1] + ...) * size`.
typedef struct EtvkTensor {
  // An `EtvkScalarType`.
  int32_t scalar_type;
  // Number of dimensions.
  uint32_t rank;
  // `rank` sizes; may be null for rank 0.
  const int32_t *sizes;
  // `rank` dimensions from the slowest to the fastest; null if `strides` say it, or for row-major.
  const uint8_t *dim_order;
  // `rank` distances in elements; null if `dim_order` says it. Where both are given they must agree. Inputs may have
  // any strides that are not negative; outputs must be dense, without gaps or overlap.
  const int32_t *strides;
  // The elements; may be null if there are none.
  void *data;
  // Bytes at `data`.
  size_t nbytes;
  // An `EtvkDynamism`.
  uint32_t dynamism;
  // Passed to `resize`.
  void *resize_context;
  // Gives an output new sizes: `tensor` is this structure, `arg` its place among the arguments. It must bring
  // `sizes`, `dim_order`, `strides`, `data` and `nbytes` up to date and return OK, or return another `EtvkStatus`.
  // Called before an output is written, also where its sizes do not change. Null where the sizes cannot change.
  uint32_t (*resize)(void *context, size_t arg, struct EtvkTensor *tensor, const int32_t *sizes, size_t rank);
} EtvkTensor;

// An argument of an execution.
typedef struct EtvkArg {
  // An `EtvkArgTag`.
  uint32_t tag;
  // Value of the tag INT: read if the argument is an input, written if it is an output. It must fit in 32 bits.
  int64_t int_value;
  // Value of the tag TENSOR. A tensor of one INT or LONG element may stand for an integer, in and out.
  struct EtvkTensor tensor;
} EtvkArg;

// Where the events of an execution go. Names are NUL-terminated UTF-8 and valid during the call. Events carry no
// integer id. All of them come from the thread that executes.
//
// The names, in order: `ETVK_EXECUTE` around everything; `ETVK_COPY_INPUTS`; `ETVK_RESIZE`, only where sizes
// changed; `ETVK_COMPUTE_GRAPH_EXECUTE`; then, with the option `profile`, a `log` for each dispatch; and
// `ETVK_COPY_OUTPUTS`. The name of a dispatch is JSON: `{"operator": {"name", "delegate_node_id", "args": [...]},
// "kernel_name", "operator_id", "dispatch_id"}`.
typedef struct EtvkEvents {
  // Passed to all of them.
  void *context;
  // Something starts. Events nest; may be null.
  void (*start)(void *context, const char *name);
  // What started last ends, whether it failed or not; may be null.
  void (*end)(void *context, const char *name);
  // A dispatch took from `start_ns` to `end_ns` on the GPU. That clock starts at 0 with the execution and counts
  // the dispatches' own times without the gaps between them; may be null.
  void (*log)(void *context, const char *name, uint64_t start_ns, uint64_t end_ns);
} EtvkEvents;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// `ETVK_ABI_VERSION` of the library that is running.
uint32_t etvk_abi_version(void);

// Version of the library, as in "0.1.0".
const char *etvk_version(void);

// What went wrong in the last function on this thread that returned an `EtvkStatus`: one line that says what was
// expected and what was found. Empty if it was OK. Valid until this thread's next call of such a function.
const char *etvk_last_error(void);

// Name of a status, as in "INVALID_ARGUMENT"; "UNKNOWN" for numbers that are none.
const char *etvk_status_name(uint32_t status);

// Where log messages up to the level `max_level` (an `EtvkLogLevel`) go: to `log`, for the whole process, until the next
// call; null is the default and means nowhere. Whatever makes a function fail is logged at the level ERROR.
void etvk_set_log(EtvkLog log,
                  void *context,
                  uint32_t max_level);

// Whether there is a device to run on: OK or NOT_SUPPORTED. `device` is a value of the option of that name, null for the
// value that is set. It makes a Vulkan instance and looks at the list of devices, but opens none.
//
// # Safety
// `device` is null or NUL-terminated.
EtvkStatus etvk_available(const char *device);

// Tells `visit` of every device there is, in the driver's order; opens none. No devices are OK, no Vulkan loader is
// NOT_SUPPORTED.
//
// # Safety
// `visit` may be called with `context`.
EtvkStatus etvk_devices(EtvkVisitDevice visit,
                        void *context);

// Finds out, without a device, whether this library runs the program in a `.pte` or `.bpte` file. OK means that it does;
// otherwise `visit` is told of each reason, and the status is that of the first. The C interface runs delegates, not
// programs: what is not delegated is for the program's runtime, and not looked at.
//
// # Safety
// `path` is NUL-terminated; `visit` is null or may be called with `context`.
EtvkStatus etvk_check(const char *path,
                      EtvkVisitText visit,
                      void *context);

// Sets options of the process; all of them or, when one is not valid, none. Opens no device.
//
// # Safety
// `options` points at `count` options, whose texts are NUL-terminated.
EtvkStatus etvk_option_set(const struct EtvkOption *options, size_t count);

// Reads the option `option->key` of the process into the other fields. A text goes to `text`, which has room for
// `text_capacity` bytes (`ETVK_OPTION_TEXT` are always enough; fewer than it takes are INVALID_ARGUMENT), and
// `text_value` points there.
//
// # Safety
// `option->key` is NUL-terminated; `text` has `text_capacity` writable bytes.
EtvkStatus etvk_option_get(struct EtvkOption *option,
                           char *text,
                           size_t text_capacity);

// Makes a delegate from its payload: checks it, opens the device if nothing has before, and brings the constants there.
// The first call of this function is the first that opens a Vulkan device.
//
// `*delegate` is the new handle on success, null on failure.
//
// # Safety
// What `info` describes is there; `delegate` may be written.
EtvkStatus etvk_delegate_create(const struct EtvkCreateInfo *info,
                                struct EtvkDelegate **delegate);

// How many inputs and outputs a delegate has. Either pointer may be null.
//
// # Safety
// `inputs` and `outputs` are null or may be written.
EtvkStatus etvk_delegate_ports(struct EtvkDelegate *delegate, size_t *inputs, size_t *outputs);

// Executes a delegate on `args`: its inputs, then its outputs. Inputs may have their graph's element type or: LONG
// for 32-bit integers, if every element fits; any float type for floats, if every finite double fits. Outputs
// likewise; there, floats become the nearest ones and infinite beyond the range of HALF.
//
// There may be fewer arguments than inputs and outputs: an operator that changes a buffer makes the first outputs its new
// values (programs exported without `alias_buffer_mutations`). The delegate keeps them, if the payload tells which of its
// constants each replaces; every execution must have the same number.
//
// Mutable buffers (KV caches) keep their contents from one execution to the next. An execution whose inputs are refused
// leaves them alone, and the delegate goes on working; one that fails later may have changed them. After a panic,
// and after the device was lost, the delegate only returns INVALID_STATE or INTERNAL, and has to be made anew.
//
// One delegate runs one execution at a time; other threads wait. A callback must not execute or destroy the delegate
// that called it.
//
// # Safety
// `args` points at `count` arguments and what they describe is there; no two outputs overlap. `events` is null or
// its functions may be called. No callback unwinds or throws.
EtvkStatus etvk_delegate_execute(struct EtvkDelegate *delegate,
                                 struct EtvkArg *args,
                                 size_t count,
                                 const struct EtvkEvents *events);

// Destroys a delegate and frees its memory, when an execution in another thread has ended. Null is OK and does nothing.
// With the option `pipeline_cache_path`, compiled pipelines are written to that file.
EtvkStatus etvk_delegate_destroy(struct EtvkDelegate *delegate);

// Closes the devices that no delegate uses. Without it devices stay open for the next delegate. For programs that
// unload the library or look for leaks.
EtvkStatus etvk_shutdown(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ETVK_H */
