# Draws what each way to average field v sends, and how long it takes, over the steps of the simulation. Run by measure.sh, or by
# hand: gnuplot -e "folder='results'" plot.gp
# Reads <folder>/rows.json and writes <folder>/fields.svg.
set terminal svg size 1500,700 font "DejaVu Sans,15" background rgb "white"
set output folder."/fields.svg"
file = folder."/rows.json"
names = sprintf("sed -n 's/.*\"way\":\"\\([^\"]*\\)\".*/\\1/p' %s | awk '!seen[$0]++'", file)
ways = int(system(names." | wc -l"))
name(i) = system(sprintf("%s | sed -n %dp", names, i))
# Columns: step, bytes, seconds
rows(i) = sprintf("<sed -n '/\"field\":\"v\"/s/.*\"bytes_sent\":\\([^,]*\\),.*\"seconds\":\\([^,]*\\),\"step\":\\([^,]*\\),".\
                  "\"way\":\"%s\".*/\\3 \\1 \\2/p' %s", name(i), file)
title_of(i) = system(sprintf("%s | sed -n '%d{s/_/\\\\_/g;p}'", names, i))
colour(i) = word("#888888 #1f5fa8 #5fa0d8 #d9541e #e8a33d #7a3d9a #3d9a5f", (i - 1) % 7 + 1)

set border 3 lc rgb "#606060"
set tics nomirror out
set grid xtics ytics lc rgb "#e2e2e2" lt 1
set key outside bottom center horizontal Left reverse samplen 3 spacing 1.2
set logscale y
set xlabel "steps of the simulation"
set multiplot layout 1,2 title "Fields of an ensemble: what an average over all members costs" font "DejaVu Sans Bold,19" \
    margins 0.08,0.97,0.29,0.84 spacing 0.09
set title "seconds"
set ylabel "logarithmic" offset 1.2
set format y "%.0s %cs"
set key at screen 0.5,0.09 center center
plot for [i=1:ways] rows(i) using 1:3 with linespoints lw 2.5 pt 7 ps 0.6 lc rgb colour(i) title title_of(i)

set title "bytes that a rank sends"
unset ylabel
set format y "%.0s %cB"
unset key
plot for [i=1:ways] rows(i) using 1:2 with linespoints lw 2.5 pt 7 ps 0.6 lc rgb colour(i)
unset multiplot
