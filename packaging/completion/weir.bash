# shellcheck shell=bash
# Completion of the weir command for bash. Made by packaging/completion/generate.py from what `weir --help` says.
_weir() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command="" words="" files="" folders="" list="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command ${COMP_WORDS[i]}" in
      " info" | " bench" | "bench select" | "bench allreduce" | "bench sum" | "bench compress" | "bench embedding" | \
        "bench fusion" | "bench datacache" | "bench checkpoint" | " calibrate" | " predict" | " selftest" | " trace" | \
        "trace merge" | "trace summary" | "trace diagnose" | " checkpoint" | "checkpoint ls" | "checkpoint show" | \
        "checkpoint verify" | "checkpoint diff" | "checkpoint reshard" | " cache" | "cache ls" | "cache prune" | "cache verify" | \
        "cache check")
        command="${command:+$command }${COMP_WORDS[i]}" ;;
    esac
  done
  case "$command $before" in
    "info --threshold" | "bench allreduce --threshold" | "bench fusion --threshold")
      words="exact reuse mstopk sampled gaussian sidco redsync" ;;
    "info --threshold-parameters" | "info --count" | "info --density" | "info --algorithm" | "info --algorithm-parameters" | \
      "info --compressor" | "info --compressor-parameters" | "bench select --count" | "bench select --density" | \
      "bench select --threshold-parameters" | "bench select --iterations" | "bench allreduce --count" | \
      "bench allreduce --density" | "bench allreduce --algorithm-parameters" | "bench allreduce --compressor" | \
      "bench allreduce --compressor-parameters" | "bench allreduce --trial-iterations" | "bench allreduce --threshold-parameters" | \
      "bench allreduce --iterations" | "bench allreduce --warmup" | "bench sum --count" | "bench sum --density" | \
      "bench sum --iterations" | "bench sum --warmup" | "bench compress --compressor-parameters" | "bench compress --count" | \
      "bench compress --density" | "bench compress --iterations" | "bench compress --instructions" | "bench embedding --rows" | \
      "bench embedding --width" | "bench embedding --tokens" | "bench embedding --compute-ms" | "bench embedding --dense-count" | \
      "bench embedding --iterations" | "bench embedding --warmup" | "bench fusion --model" | \
      "bench fusion --threshold-parameters" | "bench fusion --density" | "bench fusion --buffer-mib" | "bench fusion --rate" | \
      "bench fusion --batch" | "bench fusion --shrink" | "bench fusion --poll-us" | "bench fusion --iterations" | \
      "bench fusion --warmup" | "bench datacache --samples" | "bench datacache --sample-bytes" | "bench datacache --batch" | \
      "bench datacache --pack" | "bench datacache --epochs" | "bench datacache --threads" | "bench datacache --in-flight" | \
      "bench datacache --compute-ms" | "bench datacache --folder" | "bench checkpoint --size" | "bench checkpoint --folder" | \
      "bench checkpoint --compression" | "bench checkpoint --iterations" | "bench checkpoint --count" | \
      "bench checkpoint --batch" | "calibrate --seconds" | "predict --network" | "predict --count" | "predict --density" | \
      "predict --nodes" | "predict --ranks-per-node" | "predict --compressor-parameters" | "selftest --count" | \
      "selftest --density" | "selftest --steps" | "selftest --seconds" | "trace merge --communicator" | \
      "trace summary --communicator" | "trace diagnose --communicator" | "checkpoint reshard --ranks" | \
      "checkpoint reshard --ranks-per-node" | "cache prune --dataset" | "cache prune --older-than" | "cache prune --to" | \
      "cache check --dataset" | "cache check --labels" | "cache check --threads")
      words= ;;
    "info --values" | "bench allreduce --values" | "bench embedding --values" | "bench fusion --values" | "predict --values")
      words="bfloat16 float16 native" ;;
    "bench select --threshold")
      words="all exact exact_cold reuse mstopk sampled gaussian sidco redsync" ;;
    "bench select --memory" | "bench allreduce --memory")
      words="cuda host" ;;
    "bench select --input" | "bench select --json" | "bench allreduce --input" | "bench allreduce --json" | "bench sum --json" | \
      "bench compress --input" | "bench compress --json" | "bench embedding --text" | "bench embedding --json" | \
      "bench fusion --json" | "bench datacache --path" | "bench datacache --json" | "bench checkpoint --json" | \
      "calibrate --output" | "predict --machine" | "predict --json" | "selftest --json" | "trace merge --output" | \
      "trace summary --json" | "checkpoint ls --json" | "checkpoint show --json" | "cache ls --json")
      files=yes ;;
    "bench allreduce --algorithm")
      words="all auto auto_sparse dense_ring dense_rabenseifner dense_torus2d dense_mpi dense_nccl dense_reproducible topk_allgather
        topk_dsa gtopk gaussiank hitopk oktopk hi_oktopk packed_allgather packed_reduce_scatter" list=yes ;;
    "bench allreduce --result")
      words="sparse in_place both" ;;
    "bench allreduce --wire" | "predict --wire")
      words="compact coo" ;;
    "bench sum --distribution")
      words="uniform clustered powerlaw" list=yes ;;
    "bench sum --algorithm")
      words="all auto gather split hash doubling dense blocks shared hierarchical" list=yes ;;
    "bench sum --type" | "predict --type")
      words="float32 float64 int32 int64" ;;
    "bench sum --operation")
      words="checked_sum max min reproducible_sum sum" ;;
    "bench compress --compressor")
      words="all eight_bit one_bit_sgd sign_sgd signum ef_sign_sgd qsgd natural terngrad inceptionn block_quantise error_bounded
        lossless top_k random_k threshold_v dgc chunked_topk adaptive_threshold sketchml shared_random_k power_sgd" list=yes ;;
    "bench embedding --exchange")
      words="columns rows hashed_rows server allgather dense_allreduce" list=yes ;;
    "bench embedding --routing")
      words="automatic by_node direct" ;;
    "bench embedding --optimizer")
      words="adagrad adam momentum sgd" ;;
    "bench fusion --scheme")
      words="all none behind ahead ahead_inter ahead_inter_intra omgs cupcake ahead_fitted ahead_tapered dense" list=yes ;;
    "bench fusion --algorithm")
      words="auto topk_allgather topk_dsa gtopk gaussiank hitopk oktopk hi_oktopk" ;;
    "predict --compressor")
      words="all none eight_bit one_bit_sgd sign_sgd signum ef_sign_sgd qsgd natural terngrad inceptionn block_quantise error_bounded
        lossless top_k random_k threshold_v dgc chunked_topk adaptive_threshold sketchml shared_random_k power_sgd" list=yes ;;
    *)
      case "$command" in
        "") words="info bench calibrate predict selftest trace checkpoint cache -h --help --version" ;;
        "info") words="-h --help --plan --algorithms --compressors --thresholds --threshold --threshold-parameters --count --density --algorithm
          --algorithm-parameters --compressor --compressor-parameters --values" ;;
        "bench") words="select allreduce sum compress embedding fusion datacache checkpoint -h --help" ;;
        "bench select") words="-h --help --count --density --threshold --memory --threshold-parameters --iterations --input --json" ;;
        "bench allreduce") words="-h --help --count --density --algorithm --algorithm-parameters --compressor --compressor-parameters --memory
          --trial-iterations --result --baseline --no-baseline --side-by-side --threshold --threshold-parameters --wire --values
          --iterations --warmup --input --smooth --json" ;;
        "bench sum") words="-h --help --count --density --distribution --algorithm --type --operation --iterations --warmup --json" ;;
        "bench compress") words="-h --help --compressor --compressor-parameters --count --density --iterations --input --smooth --instructions --json" ;;
        "bench embedding") words="-h --help --rows --width --tokens --exchange --values --routing --optimizer --text --compute-ms --dense-count
          --iterations --warmup --json" ;;
        "bench fusion") words="-h --help --model --scheme --algorithm --threshold --threshold-parameters --values --density --buffer-mib --rate --batch
          --shrink --poll-us --iterations --warmup --json" ;;
        "bench datacache") words="-h --help --path --samples --sample-bytes --batch --pack --epochs --threads --in-flight --compute-ms --folder --json" ;;
        "bench checkpoint") words="-h --help --size --folder --compression --iterations --steps --count --batch --json" ;;
        "calibrate") words="-h --help --output --seconds" ;;
        "predict") words="-h --help --machine --network --count --density --nodes --ranks-per-node --sum --type --compressor
          --compressor-parameters --wire --values --json" ;;
        "selftest") words="-h --help --count --density --steps --seconds --json" ;;
        "trace") words="merge summary diagnose -h --help" ;;
        "trace merge") words="-h --help --communicator --output" folders=yes ;;
        "trace summary") words="-h --help --communicator --json" folders=yes ;;
        "trace diagnose") words="-h --help --communicator" folders=yes ;;
        "checkpoint") words="ls show verify diff reshard -h --help" ;;
        "checkpoint ls") words="-h --help --json" folders=yes ;;
        "checkpoint show") words="-h --help --json" ;;
        "checkpoint verify") words="-h --help --reseal" ;;
        "checkpoint diff") words="-h --help" ;;
        "checkpoint reshard") words="-h --help --ranks --ranks-per-node --force" ;;
        "cache") words="ls prune verify check -h --help" ;;
        "cache ls") words="-h --help --json" folders=yes ;;
        "cache prune") words="-h --help --dataset --older-than --to" folders=yes ;;
        "cache verify") words="-h --help --remove" folders=yes ;;
        "cache check") words="-h --help --dataset --labels --threads" folders=yes ;;
      esac ;;
  esac
  if [[ -n $files ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
    compopt -o filenames 2>/dev/null
  elif [[ -n $folders && $word != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -d -- "$word")
    compopt -o filenames 2>/dev/null
  elif [[ -n $list && $word == *,* ]]; then
    mapfile -t COMPREPLY < <(compgen -P "${word%,*}," -W "$words" -- "${word##*,}")
  else
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  fi
}
complete -F _weir weir weir-openmpi weir-mpich
