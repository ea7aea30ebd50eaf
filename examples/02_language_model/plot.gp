# Draws perplexity over time and over bytes, one curve per scheme. Run by cluster_run.sh, or by hand:
#   gnuplot -e "folder='results'; schemes='embrace allgather'" plot.gp
# Writes <folder>/perplexity.svg.
set terminal svg size 1500,640 font "DejaVu Sans,15" background rgb "white"
set output folder."/perplexity.svg"
set datafile separator ","

set border 3 lc rgb "#606060"
set tics nomirror out
set grid xtics ytics lc rgb "#e2e2e2" lt 1
set key noenhanced bottom right reverse Left samplen 2 spacing 1.3
set logscale xy
set ytics (100, 125, 150, 200, 250, 300, 400, 500, 700, 1000)
array colours[5] = ["#1f5fa8", "#e0a030", "#d9541e", "#3a8f4d", "#7a4fa3"]
# Curves that coincide stay visible: later ones are thinner.
width(i) = 6 - i
# The first row is the header, the second the untrained model.
file(i) = folder."/".word(schemes, i).".csv"

# All schemes reach about the same perplexity, so the range of the first one fits all. There is room for the key below.
stats file(1) every ::2 using 2 name "perplexity" nooutput
set yrange [perplexity_min * 0.7 : perplexity_max * 1.1]
set multiplot layout 1,2 title "A language model, data-parallel: what the perplexity costs" font "DejaVu Sans Bold,19" \
    margins 0.06,0.97,0.14,0.83 spacing 0.08
set title "over time"
set ylabel "perplexity on held-out text (logarithmic)" offset 0.5
set xlabel "training time (s, logarithmic)"
set xtics (1, 2, 5, 10, 20, 50, 100, 200, 500)
plot for [i=1:words(schemes)] file(i) every ::2 using 3:2 with linespoints lw width(i) pt 7 ps 0.6 lc rgb colours[i] \
    title word(schemes, i)

set xtics auto
set format x "%.0s %cB"
set title "over what each rank has sent"
unset ylabel
unset key
set xlabel "sent by each rank (logarithmic)"
plot for [i=1:words(schemes)] file(i) every ::2 using ($5 + $6):2 with linespoints lw width(i) pt 7 ps 0.6 lc rgb colours[i] \
    title word(schemes, i)
unset multiplot
