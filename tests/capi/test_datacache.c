/* The C ABI of the sample cache: sources of files and of the caller's functions, batches by number, epochs. */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include <weir/datacache.h>

#include "expect.h"

enum { samples = 53, width = 6, item_bytes = 8 + 4 };

/* The same files for all ranks. */
static char folder[] = "/tmp/weir-test-XXXXXX", items[64], labels[64], few[64];

static void write_file(const char* path, const void* bytes, size_t count) {
  FILE* file = fopen(path, "wb");
  EXPECT(file != NULL && fwrite(bytes, 1, count, file) == count && fclose(file) == 0);
}

static unsigned char item_value(int64_t sample, int i) { return (unsigned char)(sample * 31 + i * 7); }
static int32_t label(int64_t sample) { return (int32_t)(sample % 10); }

static void write_files(void) {
  unsigned char values[16 + samples * width] = {0, 0, 8, 2, 0, 0, 0, samples, 0, 0, 0, width};
  unsigned char numbers[8 + samples] = {0, 0, 8, 1, 0, 0, 0, samples};
  int s, i;
  for (s = 0; s < samples; ++s) {
    for (i = 0; i < width; ++i) values[12 + s * width + i] = item_value(s, i);
    numbers[8 + s] = (unsigned char)label(s);
  }
  write_file(items, values, 12 + samples * width);
  write_file(labels, numbers, sizeof(numbers));
  write_file(few, numbers, sizeof(numbers) - 1);
}

static void expect_item(const unsigned char* value, int64_t sample) {
  int32_t found;
  int i;
  for (i = 0; i < width; ++i) EXPECT(value[i] == item_value(sample, i));
  memcpy(&found, value + 8, sizeof(found));
  EXPECT(value[6] == 0 && value[7] == 0 && found == label(sample));
}

static weir_source* idx(void) {
  weir_source* source = NULL;
  OK(weir_source_create_idx(items, labels, &source));
  return source;
}

/* Sources of files give their samples, and refuse other numbers, NULL and files of another kind. */
static void check_sources(void) {
  weir_source *source = idx(), *other = NULL;
  unsigned char value[64];
  int64_t number = 0;
  EXPECT(weir_source_size(source, &number) == WEIR_OK && number == samples);
  EXPECT(weir_source_value_bytes(source, &number) == WEIR_OK && number == item_bytes);
  EXPECT_TEXT(weir_source_identity(source), "uint8 53x6");
  EXPECT(strcmp(weir_source_layout(source), "uint8[6] int32[]") == 0);
  EXPECT(weir_source_get(source, 52, value, &number) == WEIR_OK && number == item_bytes);
  expect_item(value, 52);
  REFUSED(weir_source_get(source, 53, value, &number), NULL, "no sample 53");
  WRONG(weir_source_get(source, -1, value, &number));
  WRONG(weir_source_get(source, 0, NULL, &number));
  EXPECT(weir_source_get(source, 0, value, NULL) == WEIR_ERR_ARGUMENT && weir_source_size(source, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_source_destroy(source) == WEIR_OK && weir_source_destroy(NULL) == WEIR_OK);
  EXPECT(weir_source_destroy(source) == WEIR_ERR_ARGUMENT && weir_source_identity(source) == NULL);
  EXPECT_TEXT(weir_last_error(NULL), "the source does not exist");
  EXPECT(weir_source_layout(NULL) == NULL && weir_source_size(NULL, &number) == WEIR_ERR_ARGUMENT);

  EXPECT(weir_source_create_idx(items, NULL, &source) == WEIR_OK && weir_source_destroy(source) == WEIR_OK);
  FAILS(weir_source_create_idx(items, few, &source), WEIR_ERR_FILE, NULL, "few");
  WRONG(weir_source_create_idx(NULL, NULL, &source));
  WRONG(weir_source_create_idx(items, NULL, NULL));
  FAILS(weir_source_create_npy(items, NULL, &source), WEIR_ERR_FILE, NULL, "no NumPy file");
  EXPECT(weir_source_create_jpeg("/nowhere", 8, 8, &source) != WEIR_OK);
  EXPECT(weir_source_create_hdf5(items, "a", NULL, &source) != WEIR_OK);
  WRONG(weir_source_create_hdf5(items, NULL, NULL, &source));
  EXPECT(weir_source_create_records(items, 5, 12, &source) == WEIR_ERR_FILE && source == NULL);
  OK(weir_source_create_records(items, width, 12, &other));
  EXPECT(weir_source_get(other, 3, value, &number) == WEIR_OK && number == width && value[2] == item_value(3, 2));
  OK(weir_source_destroy(other));
}

/* Samples of 0 to 16 bytes; sample 13 cannot be read, and sample 17 cannot be decoded. */
struct made {
  atomic_int reads, decodes, released;
  int fails;
};

static weir_status read_made(void* user, int64_t first, int64_t count, int64_t* sizes, weir_source_call* call) {
  struct made* const of = user;
  int64_t i;
  atomic_fetch_add(&of->reads, 1);
  for (i = 0; i < count; ++i) {
    void* room = NULL;
    sizes[i] = (first + i) % 17;
    if (of->fails && first + i == 13) {
      weir_source_fail(call, "the tape is torn");
      return WEIR_ERR_FILE;
    }
    if (weir_source_append(call, sizes[i], &room) != WEIR_OK) return WEIR_ERR_MEMORY;
    memset(room, (int)(first + i), (size_t)sizes[i]);
  }
  return WEIR_OK;
}

static weir_status decode_made(void* user, int64_t sample, const void* encoded, int64_t encoded_bytes, void* value,
                               int64_t* value_bytes, weir_source_call* call) {
  struct made* const of = user;
  void* room = NULL;
  int64_t i;
  atomic_fetch_add(&of->decodes, 1);
  if (of->fails && sample == 17) return WEIR_ERR_UNSUPPORTED;
  if (*value_bytes != 16 || encoded_bytes != sample % 17 || weir_source_append(call, 1, &room) != WEIR_ERR_ARGUMENT)
    return WEIR_ERR_INTERNAL;
  for (i = 0; i < encoded_bytes; ++i) ((unsigned char*)value)[i] = (unsigned char)(((const unsigned char*)encoded)[i] + 1);
  *value_bytes = encoded_bytes;
  return WEIR_OK;
}

static void release_made(void* user) { atomic_fetch_add(&((struct made*)user)->released, 1); }

static weir_source_functions functions_made(void) {
  weir_source_functions functions = WEIR_SOURCE_FUNCTIONS_INIT;
  functions.size = 100;
  functions.value_bytes = 16;
  functions.identity = "made of numbers";
  functions.variable = 1;
  functions.read = read_made;
  functions.decode = decode_made;
  functions.release = release_made;
  return functions;
}

/* Functions get the documented arguments, are released once, and are refused if they are invalid. */
static void check_functions(void) {
  weir_source_functions functions = functions_made();
  struct made made = {0};
  weir_source* source = NULL;
  unsigned char value[16];
  int64_t number = 0;
  OK(weir_source_create(&functions, &made, &source));
  EXPECT(strcmp(weir_source_identity(source), "made of numbers") == 0 && weir_source_layout(source)[0] == '\0');
  EXPECT(weir_source_get(source, 33, value, &number) == WEIR_OK && number == 16 && value[0] == 34 && value[15] == 34);
  made.fails = 1;
  FAILS(weir_source_get(source, 13, value, &number), WEIR_ERR_FILE, NULL,
        "read of the caller's source fails at sample 13: the tape is torn");
  FAILS(weir_source_get(source, 17, value, &number), WEIR_ERR_UNSUPPORTED, NULL, "at sample 17: status 10, without a text");
  EXPECT(weir_source_destroy(source) == WEIR_OK && made.released == 1 && made.reads == 3 && made.decodes == 2);
  functions.decode = NULL;
  OK(weir_source_create(&functions, &made, &source));
  EXPECT(weir_source_get(source, 33, value, &number) == WEIR_OK && number == 16 && value[0] == 33);
  EXPECT(weir_source_close(source) == WEIR_OK && made.released == 2 && weir_source_close(source) == WEIR_OK);
  EXPECT(weir_source_get(source, 33, value, &number) == WEIR_ERR_STATE);
  EXPECT(weir_source_destroy(source) == WEIR_OK && made.released == 2 && weir_source_close(source) == WEIR_ERR_ARGUMENT);
  functions.size = -1;
  WRONG(weir_source_create(&functions, &made, &source));
  functions = functions_made();
  functions.read = NULL;
  WRONG(weir_source_create(&functions, &made, &source));
  functions = functions_made();
  functions.struct_size = 3;
  REFUSED(weir_source_create(&functions, &made, &source), NULL, "WEIR_SOURCE_FUNCTIONS_INIT");
  functions = functions_made();
  functions.value_bytes = 0;
  WRONG(weir_source_create(&functions, &made, &source));
  EXPECT(weir_source_create(NULL, &made, &source) == WEIR_ERR_ARGUMENT && made.released == 2 && source == NULL);
  EXPECT(weir_source_append(NULL, 1, NULL) == WEIR_ERR_ARGUMENT && weir_source_fail(NULL, "x") == WEIR_ERR_ARGUMENT);
}

static weir_cache* make_cache(weir_comm* comm, weir_source* source, int on_error) {
  weir_sample_cache_config config = WEIR_SAMPLE_CACHE_CONFIG_INIT;
  weir_cache* cache = NULL;
  config.largest_batch = 64;
  config.in_flight = 2;
  config.pack_samples = 8;
  config.threads = 2;
  config.on_error = on_error;
  config.name = "made";
  OK(weir_cache_create(comm, &config, source, &cache));
  return cache;
}

/* Batches are started, tested, awaited and read; queries; a cache outlives the handle of its source. */
static void check_cache(weir_comm* comm) {
  weir_source* source = idx();
  weir_cache* cache = make_cache(comm, source, WEIR_SAMPLES_ERROR);
  weir_sample_cache_statistics statistics = {.struct_size = sizeof(statistics)};
  weir_sample_cache_config in_force = {.struct_size = sizeof(in_force)};
  unsigned char values[3][10 * item_bytes];
  int64_t asked[10], sizes[3][10], batches[3], number = 0, i;
  int k, done, owner = -1;
  OK(weir_source_destroy(source));
  EXPECT(weir_cache_size(cache, &number) == WEIR_OK && number == samples);
  EXPECT(weir_cache_value_bytes(cache, &number) == WEIR_OK && number == item_bytes);
  EXPECT(weir_cache_memory_bytes(cache, &number) == WEIR_OK && number > 0);
  EXPECT_TEXT(weir_cache_explanation(cache), "53 samples");
  EXPECT(weir_cache_get_config(cache, &in_force) == WEIR_OK && in_force.pack_samples == 8 && strcmp(in_force.name, "made") == 0);
  EXPECT(weir_cache_owner(cache, 52, &owner) == WEIR_OK && owner == ranks - 1);
  WRONG(weir_cache_owner(cache, 53, &owner));
  for (k = 0; k < 3; ++k) { /* one more than may be in flight */
    for (i = 0; i < 10; ++i) asked[i] = (i + 10 * k + rank) % samples;
    EXPECT(weir_cache_start(cache, asked, 10, values[k], sizes[k], &batches[k]) == WEIR_OK && batches[k] == k);
    memset(asked, 0xff, sizeof(asked));
  }
  for (done = 0; !done;) OK(weir_cache_test(cache, batches[1], &done));
  for (done = 0; !done;) OK(weir_cache_wait_for(cache, batches[2], 0.01, &done));
  EXPECT(weir_cache_wait(cache, batches[0]) == WEIR_OK && weir_cache_wait(cache, batches[2]) == WEIR_OK);
  for (k = 0; k < 3; ++k) {
    for (i = 0; i < 10; ++i) expect_item(values[k] + i * item_bytes, (i + 10 * k + rank) % samples);
    EXPECT(sizes[k][0] == item_bytes && sizes[k][9] == item_bytes);
  }
  OK(weir_cache_get(cache, NULL, 0, NULL, NULL));
  EXPECT(weir_cache_wait(cache, 4) == WEIR_ERR_ARGUMENT && weir_cache_wait(cache, -1) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_cache_test(cache, 0, NULL) == WEIR_ERR_ARGUMENT && weir_cache_wait_for(cache, 0, -1, &done) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_cache_get_statistics(cache, &statistics) == WEIR_OK && statistics.asked == 30);
  WRONG(weir_cache_get_statistics(cache, NULL));
  EXPECT(weir_cache_destroy(cache) == WEIR_OK && weir_cache_destroy(NULL) == WEIR_OK);
  EXPECT(weir_cache_size(cache, &number) == WEIR_ERR_ARGUMENT && weir_cache_explanation(cache) == NULL);
}

/* A wrong request of one rank is an error on all ranks, and so is a sample that cannot be read. All ranks can continue. */
static void check_wrong_questions(weir_comm* comm) {
  weir_source_functions functions = functions_made();
  struct made made = {.fails = 1};
  weir_source* source = idx();
  weir_cache* cache = make_cache(comm, source, WEIR_SAMPLES_ERROR);
  unsigned char values[64 * 16];
  int64_t asked[3] = {0, samples, 17}, sizes[3], batch = -1;
  REFUSED(weir_cache_get(cache, asked, last ? 2 : 1, values, NULL), comm, "no sample 53");
  REFUSED(weir_cache_get(cache, last ? NULL : asked, 1, values, NULL), comm, "the address for the numbers of samples is null");
  WRONG(weir_cache_get(cache, asked, last ? -1 : 1, values, NULL));
  WRONG(weir_cache_get(cache, asked, last ? INT64_MAX : 1, values, NULL));
  WRONG(weir_cache_get(cache, asked, 1, last ? NULL : values, NULL));
  OK(last ? weir_cache_refuse(cache, "0.5 is no sample", &batch) : weir_cache_start(cache, asked, 1, values, NULL, &batch));
  EXPECT(batch == 0);
  REFUSED(weir_cache_wait(cache, batch), comm, ": 0.5 is no sample");
  EXPECT(weir_cache_start(cache, asked, 1, values, NULL, last ? NULL : &batch) == (last ? WEIR_ERR_ARGUMENT : WEIR_OK));
  OK(weir_cache_wait(cache, 1));
  OK(weir_cache_get(cache, asked, 1, values, NULL));
  expect_item(values, 0);
  EXPECT(weir_cache_destroy(cache) == WEIR_OK && weir_source_destroy(source) == WEIR_OK);

  OK(weir_source_create(&functions, &made, &source));
  cache = make_cache(comm, source, WEIR_SAMPLES_ERROR);
  asked[0] = 1, asked[1] = 17, asked[2] = 2;
  EXPECT(weir_cache_get(cache, asked, rank == 0 ? 3 : 1, values, sizes) != WEIR_OK);
  EXPECT_TEXT(weir_last_error(comm), "fails at sample 17");
  OK(weir_cache_destroy(cache));
  cache = make_cache(comm, source, WEIR_SAMPLES_SKIP);
  EXPECT(weir_source_destroy(source) == WEIR_OK && made.released == 0); /* the cache keeps it */
  OK(weir_cache_get(cache, asked, 3, values, sizes));
  EXPECT(sizes[0] == 1 && sizes[1] == -1 && sizes[2] == 2 && values[0] == 2 && values[16] == 0 && values[32] == 3);
  EXPECT(weir_cache_destroy(cache) == WEIR_OK && made.released == 1);
}

/* Wrong arguments of one rank are refused on all ranks, and all can continue. */
static void check_refused_making(weir_comm* comm) {
  weir_sample_cache_config config = WEIR_SAMPLE_CACHE_CONFIG_INIT;
  weir_sample_loader_config loader_config = WEIR_SAMPLE_LOADER_CONFIG_INIT;
  weir_source* source = idx();
  weir_cache* cache = NULL;
  weir_loader* loader = NULL;
  WRONG(weir_cache_create(comm, last ? NULL : &config, source, &cache));
  WRONG(weir_cache_create(comm, &config, last ? NULL : source, &cache));
  if (last) EXPECT_TEXT(weir_last_error(comm), "the source is NULL");
  WRONG(weir_cache_create(comm, &config, last ? (weir_source*)comm : source, &cache));
  WRONG(weir_cache_create(comm, &config, source, last ? NULL : &cache));
  if (last) config.largest_batch = 0;
  EXPECT(weir_cache_create(comm, &config, source, &cache) == WEIR_ERR_ARGUMENT && cache == NULL);
  cache = make_cache(comm, source, WEIR_SAMPLES_ERROR);
  REFUSED(weir_loader_create(cache, last ? NULL : &loader_config, &loader), comm, "the config is NULL");
  WRONG(weir_loader_create(cache, &loader_config, last ? NULL : &loader));
  if (last) loader_config.batch = 65;
  REFUSED(weir_loader_create(cache, &loader_config, &loader), comm, "batch is 65");
  EXPECT(weir_loader_create(NULL, &loader_config, &loader) == WEIR_ERR_ARGUMENT && loader == NULL);
  EXPECT(weir_cache_destroy(cache) == WEIR_OK && weir_source_destroy(source) == WEIR_OK);
}

/* An epoch, and a position in it from which another loader continues. */
static void check_loader(weir_comm* comm) {
  weir_source* source = idx();
  weir_cache* cache = make_cache(comm, source, WEIR_SAMPLES_ERROR);
  weir_loader *loader = NULL, *second = NULL;
  weir_sample_loader_config config = WEIR_SAMPLE_LOADER_CONFIG_INIT, in_force = {.struct_size = sizeof(in_force)};
  weir_sample_batch batch = {.struct_size = sizeof(batch)};
  int64_t step, steps = 0, i;
  char position[512];
  int there = 0;
  config.batch = 4;
  config.seed = 3;
  config.progress = WEIR_PROGRESS_OFF;
  EXPECT(weir_loader_create(cache, &config, &loader) == WEIR_OK && weir_loader_create(cache, &config, &second) == WEIR_OK);
  EXPECT(weir_loader_get_config(loader, &in_force) == WEIR_OK && in_force.batch == 4 && in_force.seed == 3);
  EXPECT(weir_cache_destroy(cache) == WEIR_OK && weir_source_destroy(source) == WEIR_OK); /* loaders still work */
  EXPECT(weir_loader_steps(loader, &steps) == WEIR_OK && steps == (samples + 4 * ranks - 1) / (4 * ranks));
  for (step = 0;; ++step) {
    OK(weir_loader_next(loader, &batch, &there));
    EXPECT(weir_loader_step(loader, &i) == WEIR_OK && i == step + there);
    if (!there) break;
    EXPECT(batch.epoch == 0 && batch.step == step && batch.value_bytes == item_bytes && batch.count <= 4);
    for (i = 0; i < batch.count; ++i) {
      EXPECT(batch.sizes[i] == item_bytes);
      expect_item((const unsigned char*)batch.values + i * item_bytes, batch.samples[i]);
    }
    if (step == 1) strncpy(position, weir_loader_position(loader), sizeof(position) - 1), position[511] = '\0';
  }
  EXPECT(step == steps && batch.count == 0);
  OK(weir_loader_seek(second, position));
  EXPECT(weir_loader_next(second, &batch, &there) == WEIR_OK && there && batch.epoch == 0 && batch.step == 2);
  EXPECT(weir_loader_epoch(second, &i) == WEIR_OK && i == 0);
  WRONG(weir_loader_seek(loader, rank == 0 ? "nowhere" : position));
  WRONG(weir_loader_seek(loader, NULL));
  EXPECT(weir_loader_next(loader, NULL, &there) == WEIR_ERR_ARGUMENT &&
         weir_loader_next(loader, &batch, NULL) == WEIR_ERR_ARGUMENT);
  WRONG(weir_loader_epoch(loader, NULL));
  EXPECT(weir_loader_destroy(loader) == WEIR_OK && weir_loader_destroy(second) == WEIR_OK && weir_loader_destroy(NULL) == WEIR_OK);
  REFUSED(weir_loader_destroy(loader), NULL, "the loader does not exist");
  EXPECT(weir_loader_position(loader) == NULL);
}

int main(int argc, char** argv) {
  weir_comm* const comm = start(&argc, &argv);
  if (rank == 0) EXPECT(mkdtemp(folder) != NULL);
  MPI_Bcast(folder, sizeof(folder), MPI_CHAR, 0, MPI_COMM_WORLD);
  snprintf(items, sizeof(items), "%s/items", folder);
  snprintf(labels, sizeof(labels), "%s/labels", folder);
  snprintf(few, sizeof(few), "%s/few", folder);
  if (rank == 0) write_files();
  MPI_Barrier(MPI_COMM_WORLD);
  check_sources();
  check_functions();
  check_cache(comm);
  check_wrong_questions(comm);
  check_refused_making(comm);
  check_loader(comm);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) EXPECT(unlink(items) == 0 && unlink(labels) == 0 && unlink(few) == 0 && rmdir(folder) == 0);
  return end(comm);
}
