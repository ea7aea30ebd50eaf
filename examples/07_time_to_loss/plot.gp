# Draws the loss over time and over bytes, of every method at 1 Gbit/s. Run by measure.sh, or by hand:
#   gnuplot -e "folder='results'" plot.gp
# Writes <folder>/time_to_loss.svg.
set terminal svg size 1500,700 font "DejaVu Sans,15" background rgb "white"
set output folder."/time_to_loss.svg"
set datafile separator ","

set border 3 lc rgb "#606060"
set tics nomirror out
set grid xtics ytics lc rgb "#e2e2e2" lt 1
set key bottom left Left reverse samplen 2 spacing 1.1 noenhanced
set logscale x
array colours[11] = ["#000000", "#8a8a8a", "#8fce8f", "#2e8b57", "#f0b070", "#d9541e", "#8b1a1a", "#e6b800", "#b060c0", "#1f5fa8", "#68b0e0"]
file = folder."/loss-1gbit.csv"
stats file using 1 nooutput
methods = STATS_blocks

set multiplot layout 1,2 title "A transformer of 5.4 M parameters, 4 nodes at 1 Gbit/s" font "DejaVu Sans Bold,19" \
    margins 0.07,0.97,0.12,0.86 spacing 0.08
set title "over time"
set ylabel "loss on held-out text (nats a character)" offset 0.5
set xlabel "training time (s, logarithmic)"
plot for [i=0:methods-1] file index i every ::1 using 1:3 with lines lw 3 lc rgb colours[i+1] title columnheader(1)

set title "over what each node has sent"
unset ylabel
unset key
set xlabel "sent by each node (logarithmic)"
set format x "%.0s %cB"
plot for [i=0:methods-1] file index i every ::1 using 2:3 with lines lw 3 lc rgb colours[i+1] title columnheader(1)
unset multiplot
