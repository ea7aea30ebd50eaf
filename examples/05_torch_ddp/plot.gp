# Draws accuracy over time and over bytes, dense and sparse. Run by cluster_run.sh, or by hand:
#   gnuplot -e "folder='results'" plot.gp
# Writes <folder>/accuracy.svg.
set terminal svg size 1500,640 font "DejaVu Sans,15" background rgb "white"
set output folder."/accuracy.svg"
set datafile separator ","

set border 3 lc rgb "#606060"
set tics nomirror out
set grid xtics ytics lc rgb "#e2e2e2" lt 1
set key bottom right reverse Left samplen 2 spacing 1.3
set logscale x
set yrange [*:92]
array colours[2] = ["#1f5fa8", "#d9541e"]
modes = "dense sparse"
titles = "'DistributedDataParallel over gloo' 'with the hook of weir.torch, 1 %'"
file(i) = folder."/".word(modes, i).".csv"

set multiplot layout 1,2 title "A network of 5.8 M parameters under DistributedDataParallel, 4 nodes at 1 Gbit/s" font "DejaVu Sans Bold,19" \
    margins 0.06,0.97,0.14,0.83 spacing 0.08
set title "over time"
set ylabel "accuracy on held-out images (%)" offset -0.5
set xlabel "training time (s, logarithmic)"
set xtics (5, 10, 20, 50, 100, 200, 500, 1000)
plot for [i=1:2] file(i) every ::1 using 3:(100 * $2) with linespoints lw 4 pt 7 ps 0.7 lc rgb colours[i] title word(titles, i)

set xtics auto
set format x "%.0s %cB"
set title "over what each rank has sent"
unset ylabel
unset key
set xlabel "sent by each rank (logarithmic)"
plot for [i=1:2] file(i) every ::1 using ($4 * 1e6):(100 * $2) with linespoints lw 4 pt 7 ps 0.7 lc rgb colours[i]
unset multiplot
