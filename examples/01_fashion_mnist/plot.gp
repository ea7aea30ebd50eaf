# Accuracy over bytes and over time, side by side. Run by ../quickstart.sh, or by hand:
#   gnuplot -e "folder='quickstart-output'; algorithms='dense_rabenseifner oktopk'" plot.gp
set terminal pngcairo size 1500,640 font "DejaVu Sans,14" background rgb "white"
set output folder."/accuracy.png"
set datafile separator ","

set multiplot layout 1,2 title "Fashion-MNIST, data-parallel: what the accuracy costs" font "DejaVu Sans Bold,18" \
    margins 0.07,0.98,0.14,0.83 spacing 0.08
set border 3 lc rgb "#606060"
set tics nomirror out
set grid xtics ytics lc rgb "#e2e2e2" lt 1
set key bottom right reverse Left samplen 2 spacing 1.3
set format y "%.0f %%"
set yrange [70:92]
set ylabel "test accuracy" offset 1
array colours[4] = ["#1f5fa8", "#d9541e", "#3a8f4d", "#7a4fa3"]
file(i) = folder."/".word(algorithms, i).".csv"
name(i) = word(algorithms, i) eq "" ? "" : join(split(word(algorithms, i), "_"), " ")

set title "over what each rank has sent"
set logscale x
set xlabel "sent by each rank (MB, logarithmic)"
plot for [i=1:words(algorithms)] file(i) using ($3 / 1e6):($6 * 100) with linespoints lw 2.5 pt 7 ps 0.8 lc rgb colours[i] \
    title name(i)

unset logscale x
set title "over time"
set xlabel "training time (s)"
set xrange [0:*]
plot for [i=1:words(algorithms)] file(i) using 4:($6 * 100) with linespoints lw 2.5 pt 7 ps 0.8 lc rgb colours[i] \
    title name(i)
unset multiplot
