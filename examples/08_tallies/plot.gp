# Draws seconds and bytes of a sum by density, sparse and dense. Run by measure.sh, or by hand:
#   gnuplot -e "folder='results'" plot.gp
# Reads <folder>/memory.csv and <folder>/1gbit.csv, as far as they are there, and writes <folder>/tallies.svg.
set terminal svg size 1500,640 font "DejaVu Sans,15" background rgb "white"
set output folder."/tallies.svg"
set datafile separator ","
rows(way, network) = sprintf("<cat %s/%s.csv 2>/dev/null | sed -n '/^%s,/p'", folder, network, way)
there(network) = system(sprintf("ls %s/%s.csv 2>/dev/null", folder, network)) ne ""
networks = (there("1gbit") ? "1gbit " : "").(there("memory") ? "memory" : "")
place(network) = network eq "1gbit" ? "4 nodes, 1 Gbit/s" : "one machine"
dashes(network) = network eq "1gbit" ? 1 : 3
colour(way) = way eq "sparse" ? "#d9541e" : "#1f5fa8"
name(way) = way eq "sparse" ? "sparse" : "MPI\\_Allreduce"
ways = "dense sparse"

set border 3 lc rgb "#606060"
set tics nomirror out
set grid xtics ytics lc rgb "#e2e2e2" lt 1
set key bottom right Left reverse samplen 3 spacing 1.2
set logscale xy
set format x "%g %%"
set xlabel "cells with a score on a rank, of all cells (logarithmic)"
set multiplot layout 1,2 title "Tallies of 4 ranks in 2 M cells: what their sum costs" font "DejaVu Sans Bold,19" \
    margins 0.08,0.97,0.14,0.83 spacing 0.09
set title "seconds"
set ylabel "time of a sum (logarithmic)" offset 1.2
set format y "%.0s %cs"
plot for [network in networks] for [way in ways] rows(way, network) using 5:6 with linespoints lw 2.5 pt 7 ps 0.6 \
    dt dashes(network) lc rgb colour(way) title name(way).", ".place(network)

set title "bytes"
unset ylabel
set format y "%.0s %cB"
plot for [way in ways] rows(way, word(networks, 1)) using 5:7 with linespoints lw 2.5 pt 7 ps 0.6 lc rgb colour(way) \
    title name(way).(way eq "dense" ? " (computed)" : "").", sent by a rank"
unset multiplot
