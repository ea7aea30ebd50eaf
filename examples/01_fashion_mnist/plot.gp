# Draws accuracy over bytes and over time, side by side. Run by ../quickstart.sh, or by hand:
#   gnuplot -e "folder='quickstart-output'; algorithms='dense_rabenseifner oktopk'" plot.gp
set terminal pngcairo size 1500,640 font "DejaVu Sans,14" background rgb "white"
set output folder."/accuracy.png"
set datafile separator ","

set multiplot layout 1,2 title "Fashion-MNIST, data-parallel: what the accuracy costs" font "DejaVu Sans Bold,18" \
    margins 0.075,0.975,0.14,0.83 spacing 0.1
set border 3 lc rgb "#606060"
set tics nomirror out
set grid xtics ytics lc rgb "#e2e2e2" lt 1
set key noenhanced bottom right reverse Left samplen 2 spacing 1.3
set format y "%.0f %%"
set yrange [76:92]
set ylabel "test accuracy" offset -0.5
array colours[4] = ["#1f5fa8", "#d9541e", "#3a8f4d", "#7a4fa3"]
# The first row is the header, the second the untrained network.
file(i) = folder."/".word(algorithms, i).".csv"

set title "over what each rank has sent"
set logscale x
set format x "%.0s %cB"
set xlabel "sent by each rank (logarithmic)"
plot for [i=1:words(algorithms)] file(i) every ::2 using 3:($6 * 100) with linespoints lw 2.5 pt 7 ps 0.8 lc rgb colours[i] \
    title word(algorithms, i)

unset logscale x
set format x "%.0f"
set title "over time"
set xlabel "training time (s)"
set xrange [0:*]
plot for [i=1:words(algorithms)] file(i) every ::2 using 4:($6 * 100) with linespoints lw 2.5 pt 7 ps 0.8 lc rgb colours[i] \
    title word(algorithms, i)
unset multiplot
