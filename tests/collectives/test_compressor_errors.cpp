// The refused configurations of compressors and the texts of their errors, which are the same on all ranks.
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"

namespace weir::test {

TEST_CASE("what does not go together is refused", "[compressors]") {
  const auto refuses = [](const AllreduceConfig& config, const std::string& text) {
    run_ranks(2, [&](Communicator& comm) {
      try {
        const AllreducePlan plan(comm, config);
      } catch (const Error& error) {
        if (error.status() == WEIR_ERR_ARGUMENT && std::string(error.what()).find(text) != std::string::npos) return;
        throw std::runtime_error(std::string("another error: ") + error.what());
      }
      throw std::runtime_error("no error: " + text);
    });
  };
  refuses({.count = 9, .compressor = "topk"}, "; did you mean 'top_k'?");
  refuses({.count = 9, .compressor = "powersgd"}, "; did you mean 'power_sgd'?");
  refuses({.count = 9, .compressor = "gzip"}, "there is no compressor 'gzip': known are eight_bit, one_bit_sgd, ");
  refuses({.count = 9, .compressor = "qsgd"},
          "compressor is qsgd: algorithm oktopk cannot carry it; packed_allgather, packed_reduce_scatter, or auto, can");
  refuses({.count = 9, .algorithm = "dense_ring", .compressor = "top_k"}, "algorithm dense_ring cannot carry it; topk_allgather, ");
  refuses({.count = 9, .algorithm = "packed_allgather", .compressor = "none"}, "packed_allgather cannot carry it; dense_ring, ");
  const std::string packed = "packed_allgather";
  refuses({.count = 9, .algorithm = packed, .compressor = "qsgd", .compressor_parameters = "level=3"},
          "compressor_parameters: qsgd has no parameter 'level': it has levels (7), bucket (512)");
  refuses({.count = 9, .algorithm = packed, .compressor = "qsgd", .compressor_parameters = "levels=0"},
          "levels of qsgd is '0': it must be a whole number from 1 to 127");
  refuses({.count = 9, .algorithm = packed, .compressor = "qsgd", .compressor_parameters = "levels=2.5"},
          "it must be a whole number");
  refuses({.count = 9, .algorithm = packed, .compressor = "qsgd", .compressor_parameters = "levels=3,levels=3"},
          "levels is named twice");
  refuses({.count = 9, .algorithm = packed, .compressor = "qsgd", .compressor_parameters = "bucket=48"},
          "bucket is 48: it must be a power of two of at least 32, or 0");
  refuses({.count = 9, .algorithm = packed, .compressor = "block_quantise", .compressor_parameters = "format=int5"},
          "format of block_quantise is 'int5': it must be one of int8, int4, fp8");
  refuses({.count = 9, .type = DataType::float64, .algorithm = packed},
          "type is float64: compressor block_quantise takes float32 only");
  refuses({.count = 9, .algorithm = packed, .compressor = "sign_sgd", .error_feedback = Feedback::residual},
          "compressor sign_sgd cannot have any, since it sends votes");
  refuses({.count = 9,
           .algorithm = "topk_allgather",
           .compressor = "random_k",
           .compressor_parameters = "unbiased=1",
           .error_feedback = Feedback::residual},
          "random_k cannot have any");
  refuses({.count = 9,
           .algorithm = "dense_ring",
           .compressor = "shared_random_k",
           .compressor_parameters = "unbiased=1",
           .error_feedback = Feedback::ef21},
          "shared_random_k cannot have any");
  refuses({.count = 9, .algorithm = packed, .compressor = "qsgd", .error_feedback = Feedback::residual},
          "so few levels for a bucket");
  refuses({.count = 9, .algorithm = packed, .compressor = "terngrad", .error_feedback = Feedback::residual},
          "its errors exceed what it compresses");
  refuses({.count = 9, .compressor = "random_k", .compressor_parameters = "unbiased=1"},
          "oktopk cannot carry it, since it does not deliver all that was sent, and unbiased=1 needs that; topk_allgather, ");
  refuses({.count = 9, .algorithm = "hitopk", .compressor = "dgc", .compressor_parameters = "clip=1"},
          "hitopk cannot carry it, since it sums gradients in nodes first");
  refuses({.count = 9, .algorithm = "packed_reduce_scatter", .compressor = "chunked_topk", .compressor_parameters = "mean=senders"},
          "nobody knows the senders; mean=senders needs every rank's own message; packed_allgather, or auto, can");
  refuses({.count = 9, .algorithm = "auto", .compressor = "qsgd|sign_sgd", .error_feedback = Feedback::ef21},
          "qsgd cannot have any");
  refuses({.count = 9, .algorithm = "auto", .compressor = "none|sign_sgd", .error_feedback = Feedback::residual},
          "sign_sgd cannot have any");
  refuses({.count = 9, .algorithm = "auto", .compressor = "qsgd", .feedback_decay = 0.5},
          "feedback_decay is 0.5: compressor qsgd has no residual with error_feedback automatic");
  refuses({.count = 9, .algorithm = "auto", .compressor = "dgc", .error_feedback = Feedback::ef21}, "has a momentum of its own");
  refuses({.count = 9, .algorithm = "auto", .compressor = "qsgd|none", .feedback_gain = 2},
          "feedback_gain is 2: it must be 1 where gradients may travel as they are");
  refuses({.count = 9, .algorithm = "dense_ring", .feedback_gain = 2}, "feedback_gain is 2: it must be 1");
  refuses({.count = 9, .algorithm = "dense_ring", .feedback_decay = 0.5},
          "feedback_decay is 0.5: algorithm dense_ring keeps no residual");
  refuses({.count = 9, .feedback_gain = 1e-50}, "feedback_gain is 1e-50: as float32 it must be finite and not 0");
  refuses({.count = 9, .algorithm = packed, .compressor = "qsgd|none"}, "among several only algorithm auto chooses");
  refuses({.count = 9, .algorithm = "auto", .compressor = "qsgd|"}, "compressor is qsgd|: nothing follows the last |");
  refuses({.count = 9, .algorithm = packed, .compressor = "qsgd", .compressor_parameters = "levels=7,"},
          "nothing follows the last comma");
  refuses({.count = 9, .algorithm = packed, .compressor = "qsgd", .compressor_parameters = "levels"},
          "levels of qsgd has no value: write levels=7");
  refuses({.count = 9, .compressor = "dgc", .error_feedback = Feedback::ef21}, "has a momentum of its own");
  refuses({.count = 9, .compressor = "dgc", .compressor_parameters = "momentum=0,clip=1", .error_feedback = Feedback::ef21},
          "has a momentum of its own");
  refuses({.count = 9, .error_feedback = Feedback::none, .feedback_decay = 0.5},
          "feedback_decay is 0.5: compressor top_k has no residual with error_feedback none");
  refuses({.count = 9, .error_feedback = Feedback::ef21, .feedback_gain = 0.5}, "feedback_gain is 0.5: with ef21 it must be 1");
  refuses({.count = 9, .feedback_gain = 0}, "feedback_gain is 0: as float32 it must be finite and not 0");
  refuses({.count = 9, .feedback_decay = 1.5}, "feedback_decay is 1.5: it must be between 0 and 1");
  refuses({.count = 9, .seed = -1}, "seed is -1");
}

TEST_CASE("ranks that disagree about the compressor hear what differs", "[compressors]") {
  const auto errors_of = [](const std::string& algorithm, const std::string& compressor, const std::string& mine,
                            const std::string& other) {
    std::vector<std::string> errors(2);
    run_ranks(2, [&](Communicator& comm) {
      try {
        const AllreducePlan plan(comm, {.count = 9,
                                        .algorithm = algorithm,
                                        .compressor = compressor,
                                        .compressor_parameters = comm.rank() == 0 ? mine : other});
      } catch (const Error& error) {
        errors[static_cast<std::size_t>(comm.rank())] = error.what();
      }
    });
    REQUIRE(errors[0] == errors[1]);
    return errors;
  };
  std::string many = "block_quantise|chunked_topk|adaptive_threshold|one_bit_sgd|ef_sign_sgd|natural|eight_bit|terngrad|qsgd";
  REQUIRE(errors_of("auto", many, "||||||||levels=7", "||||||||levels=8")[0].find("ranks disagree about compressor") !=
          std::string::npos);
  REQUIRE(errors_of("auto", "qsgd", std::string(250, ' ') + "levels=8", "levels=8")[0].empty());
  const std::vector<std::string> errors = errors_of("packed_allgather", "qsgd", "", "levels=3");
  REQUIRE(errors[0].find(
              "ranks disagree about compressor: rank 0 has 'qsgd levels=7,bucket=512', rank 1 has 'qsgd levels=3,bucket=512'") !=
          std::string::npos);
}

}  // namespace weir::test
