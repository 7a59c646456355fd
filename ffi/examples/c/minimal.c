#include <etvk.h>
#include <stdio.h>

#define CHECK(call) \
  do { \
    if ((call) != ETVK_STATUS_OK) return fprintf(stderr, "%s\n", etvk_last_error()), 1; \
  } while (0)

int main(int argc, char **argv) {
  static char payload[1 << 20];
  FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL; /* forward.0.vk, as `etvk extract` writes it */
  if (!file) return fprintf(stderr, "usage: minimal PAYLOAD\n"), 1;
  EtvkCreateInfo info = {.struct_size = sizeof info, .payload.data = payload};
  info.payload.len = fread(payload, 1, sizeof payload, file);
  fclose(file);

  EtvkDelegate *delegate;
  CHECK(etvk_delegate_create(&info, &delegate)); /* opens the device, once for all delegates */

  static float in[2 * 3 * 16], out[2 * 3 * 16];
  for (int at = 0; at < 2 * 3 * 16; ++at) in[at] = (float)at;
  const int32_t sizes[] = {2, 3, 16};
  const EtvkTensor tensor = {.scalar_type = ETVK_SCALAR_TYPE_FLOAT, .rank = 3, .sizes = sizes, .nbytes = sizeof in};
  EtvkArg args[] = {{.tag = ETVK_ARG_TAG_TENSOR, .tensor = tensor}, {.tag = ETVK_ARG_TAG_TENSOR, .tensor = tensor}};
  args[0].tensor.data = in; /* inputs first, then outputs */
  args[1].tensor.data = out;
  CHECK(etvk_delegate_execute(delegate, args, 2, NULL));
  for (int at = 0; at < 16; ++at) printf("%g ", out[at]);
  puts("");
  CHECK(etvk_delegate_destroy(delegate));
  return 0;
}
