# Draws the error over steps and over bytes sent by a rank, one curve per scheme, into convergence.svg:
#   gnuplot -e "file='results.csv'" plot.gp
set terminal svg size 1500,640 font "DejaVu Sans,15" background rgb "white"
set output "convergence.svg"
set datafile separator ","
schemes = "dense sparse overlapped"
array colours[3] = ["#1f5fa8", "#d9541e", "#3a8f4d"]
in_scheme(i) = sprintf("<grep '%s\",' %s", word(schemes, i), file)

set border 3 lc rgb "#606060"
set tics nomirror out
set grid xtics ytics lc rgb "#e2e2e2" lt 1
set key noenhanced top right reverse Left samplen 2 spacing 1.3
set logscale xy
set yrange [0.1:1.2]
set ytics (0.1, 0.15, 0.2, 0.3, 0.5, 1)
set multiplot layout 1,2 title "An image from its projections: what the error costs" font "DejaVu Sans Bold,19" \
    margins 0.06,0.97,0.14,0.83 spacing 0.08
set title "over steps"
set ylabel "error (logarithmic)" offset -0.5
set xlabel "steps (logarithmic)"
plot for [i=1:3] in_scheme(i) using 2:3 with linespoints lw 2.5 pt 7 ps 0.6 lc rgb colours[i] title word(schemes, i)

set format x "%.0s %cB"
set title "over what each rank has sent"
unset ylabel
unset key
set xlabel "sent by each rank (logarithmic)"
plot for [i=1:3] in_scheme(i) using 4:3 with linespoints lw 2.5 pt 7 ps 0.6 lc rgb colours[i] title word(schemes, i)
unset multiplot
