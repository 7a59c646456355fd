/* Runs a delegate through the C interface, without ExecuTorch.
 *
 *   etvk extract MODEL.pte FOLDER
 *   cc run_payload.c -I ffi/include -L target/release -letvk -o run_payload
 *   ./run_payload FOLDER/forward.0 INPUT... OUTPUT...
 *
 * The extracted FOLDER has the payload (forward.0.vk), the arguments of its call (forward.0.args) and the constants. INPUT
 * is a file of raw elements, or a number for an integer; FILE:2x3 gives a tensor other sizes than the largest. OUTPUT is
 * the file that an output is written to. The whole is repeated ETVK_REPEAT times if that is set, to look for leaks. */

#include <etvk.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANK 16
#define MAX_ARGS 64

/* What an argument points at. */
typedef struct {
  int is_output;
  const char *given; /* of the command line, without sizes */
  int32_t sizes[MAX_RANK];
  size_t capacity;
} Argument;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "error: %s: %s\n", what, why);
  exit(1);
}

static void check(const char *what, EtvkStatus status) {
  if (status != ETVK_STATUS_OK) {
    fprintf(stderr, "error: %s: %s: %s\n", what, etvk_status_name(status), etvk_last_error());
    exit(1);
  }
}

/* The bytes of a file, null if there is no such file. */
static void *read_file(const char *path, size_t *length) {
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  long end = ftell(file);
  rewind(file);
  void *bytes = end >= 0 ? malloc((size_t)end + 1) : NULL;
  if (!bytes || fread(bytes, 1, (size_t)end, file) != (size_t)end) fail(path, "cannot be read");
  fclose(file);
  ((char *)bytes)[end] = 0;
  *length = (size_t)end;
  return bytes;
}

/* Finds constants: each is a file in the folder, named as its key. */
static uint32_t find_constant(void *folder, const char *key, size_t key_len, EtvkBlob *blob) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%.*s", (const char *)folder, (int)key_len, key);
  void *bytes = read_file(path, &blob->len);
  if (!bytes) return ETVK_STATUS_NOT_FOUND;
  blob->data = bytes;
  blob->owner = bytes;
  blob->release = free;
  return ETVK_STATUS_OK;
}

static size_t element_size(int32_t scalar_type) {
  switch (scalar_type) {
  case ETVK_SCALAR_TYPE_LONG:
  case ETVK_SCALAR_TYPE_DOUBLE: return 8;
  case ETVK_SCALAR_TYPE_INT:
  case ETVK_SCALAR_TYPE_FLOAT: return 4;
  case ETVK_SCALAR_TYPE_HALF: return 2;
  default: return 1;
  }
}

static size_t count_bytes(const EtvkTensor *tensor) {
  size_t bytes = element_size(tensor->scalar_type);
  for (uint32_t dim = 0; dim < tensor->rank; dim++) bytes *= (size_t)tensor->sizes[dim];
  return bytes;
}

/* Outputs have room for their largest sizes. */
static uint32_t resize(void *context, size_t arg, EtvkTensor *tensor, const int32_t *sizes, size_t rank) {
  Argument *argument = context;
  (void)arg;
  if (rank != tensor->rank) return ETVK_STATUS_NOT_SUPPORTED;
  if (rank > 0) memcpy(argument->sizes, sizes, rank * sizeof *sizes);
  tensor->nbytes = count_bytes(tensor);
  return tensor->nbytes <= argument->capacity ? ETVK_STATUS_OK : ETVK_STATUS_NOT_SUPPORTED;
}

/* Reads "in tensor 6 1 5 72" or "out int 0". */
static void describe(char *line, char *given, Argument *argument, EtvkArg *arg) {
  char *direction = strtok(line, " "), *kind = strtok(NULL, " ");
  if (!direction || !kind) fail(line, "is no argument");
  argument->is_output = strcmp(direction, "out") == 0;
  argument->given = given;
  if (strcmp(kind, "int") == 0) {
    arg->tag = ETVK_ARG_TAG_INT;
    if (!argument->is_output) arg->int_value = strtoll(given, NULL, 10);
    return;
  }
  arg->tag = ETVK_ARG_TAG_TENSOR;
  EtvkTensor *tensor = &arg->tensor;
  tensor->sizes = argument->sizes;
  tensor->dynamism = ETVK_DYNAMISM_BOUND;
  char *number = strtok(NULL, " ");
  tensor->scalar_type = number ? atoi(number) : -1;
  while ((number = strtok(NULL, " ")) && tensor->rank < MAX_RANK) argument->sizes[tensor->rank++] = atoi(number);
  if (argument->is_output) {
    argument->capacity = tensor->nbytes = count_bytes(tensor);
    tensor->data = malloc(tensor->nbytes + 1);
    tensor->resize = resize;
    tensor->resize_context = argument;
    return;
  }
  char *sizes = strrchr(given, ':');
  if (sizes) {
    *sizes++ = 0;
    for (uint32_t dim = 0; dim < tensor->rank && *sizes; dim++) {
      argument->sizes[dim] = (int32_t)strtol(sizes, &sizes, 10);
      if (*sizes == 'x') sizes++;
    }
  }
  tensor->data = read_file(given, &tensor->nbytes);
  if (!tensor->data) fail(given, strerror(errno));
}

static EtvkDelegate *create(const char *stem) {
  char path[4096], folder[4096];
  snprintf(path, sizeof path, "%s.vk", stem);
  snprintf(folder, sizeof folder, "%s", stem);
  char *slash = strrchr(folder, '/');
  if (slash) *slash = 0; else strcpy(folder, ".");

  EtvkCreateInfo info = {0};
  info.struct_size = sizeof info;
  void *payload = read_file(path, &info.payload.len);
  if (!payload) fail(path, strerror(errno));
  info.payload.data = payload;
  info.payload.owner = payload;
  info.payload.release = free; /* when the library does not need it any more */
  info.named_data.context = folder;
  info.named_data.get = find_constant;
  EtvkDelegate *delegate = NULL;
  EtvkStatus status = etvk_delegate_create(&info, &delegate);
  if (status != ETVK_STATUS_OK) free(payload); /* then it is still ours */
  check("creating the delegate", status);
  return delegate;
}

static void write_output(const Argument *argument, const EtvkArg *arg) {
  FILE *file = fopen(argument->given, "wb");
  if (!file) fail(argument->given, strerror(errno));
  if (arg->tag == ETVK_ARG_TAG_INT) {
    fprintf(file, "%lld\n", (long long)arg->int_value);
  } else {
    fwrite(arg->tensor.data, 1, arg->tensor.nbytes, file);
    printf("%s:", argument->given);
    for (uint32_t dim = 0; dim < arg->tensor.rank; dim++) printf(" %d", (int)argument->sizes[dim]);
    printf("\n");
  }
  fclose(file);
}

/* Kilobytes that this process has in memory (Linux). */
static long resident(void) {
  long all = 0, pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file) return 0;
  if (fscanf(file, "%ld %ld", &all, &pages) != 2) pages = 0;
  fclose(file);
  return pages * 4;
}

int main(int argc, char **argv) {
  static Argument arguments[MAX_ARGS];
  static EtvkArg args[MAX_ARGS];
  if (argc < 2 || argc - 2 > MAX_ARGS) fail("usage", "run_payload FOLDER/METHOD.INDEX INPUT... OUTPUT...");
  if (etvk_abi_version() != ETVK_ABI_VERSION) fail("libetvk", "is of another version than the header");
  check("looking for a device", etvk_available(NULL));

  char path[4096];
  size_t length, count = 0;
  snprintf(path, sizeof path, "%s.args", argv[1]);
  char *text = read_file(path, &length);
  if (!text) fail(path, strerror(errno));
  for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1, count++) {
    *end = 0;
    if (count + 2 >= (size_t)argc) fail("usage", "there are fewer files than arguments");
    describe(line, argv[count + 2], &arguments[count], &args[count]);
  }
  if (count + 2 != (size_t)argc) fail("usage", "there are more files than arguments");

  const char *repeat = getenv("ETVK_REPEAT");
  long turns = repeat ? atol(repeat) : 1, before = 0;
  for (long turn = 0; turn < turns; turn++) {
    EtvkDelegate *delegate = create(argv[1]);
    check("executing", etvk_delegate_execute(delegate, args, count, NULL));
    check("destroying the delegate", etvk_delegate_destroy(delegate));
    if (turn == turns / 4) before = resident();
  }
  if (repeat) printf("grown by %ld KiB\n", resident() - before);
  for (size_t at = 0; at < count; at++) {
    if (arguments[at].is_output) write_output(&arguments[at], &args[at]);
    free(args[at].tensor.data);
  }
  free(text);
  check("shutting down", etvk_shutdown());
  return 0;
}
