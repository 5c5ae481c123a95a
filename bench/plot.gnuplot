# Latency distributions. Set from outside: data (a .dat file of the benchmark), picture, heading.
if (!exists("device")) device = 'svg size 1000,560 dynamic font "sans-serif,14" background rgb "white"'
eval "set terminal ".device
stats data using 1:2 nooutput
# From the first to where all but one in a hundred have it: the rest would squeeze the picture.
stats data using ($2 < 0.99 ? $1 : NaN) nooutput prefix "shown"
set output picture
set title heading font ",17"
set xlabel "time to acquire one lock, microseconds (logarithmic)"
set ylabel "share of all locks acquired within that time"
set logscale x
set yrange [0:1.02]
set format y "%.0f %%"
set ytics ("0 %%" 0, "25 %%" 0.25, "50 %%" 0.5, "75 %%" 0.75, "90 %%" 0.9, "100 %%" 1)
set xtics (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000)
set grid xtics mxtics ytics linetype 1 linewidth 0.5 linecolor rgb "#cccccc", linetype 1 linewidth 0.5 linecolor rgb "#e8e8e8"
set key inside bottom right vertical spacing 1.3 samplen 2 opaque
set border 3
set tics nomirror
set xrange [shown_min * 0.9 : shown_max * 1.2]
# The library's lines come last among those of the latency plot, and are thicker.
set linetype 1 linecolor rgb "#888888" linewidth 2
set linetype 2 linecolor rgb "#000000" linewidth 2
set linetype 3 linecolor rgb "#d95f02" linewidth 2
set linetype 4 linecolor rgb "#e6ab02" linewidth 2
set linetype 5 linecolor rgb "#66a61e" linewidth 2
set linetype 6 linecolor rgb "#1b3fa0" linewidth 4
set linetype 7 linecolor rgb "#a01b7a" linewidth 4
set linetype 8 linecolor rgb "#1b9e9e" linewidth 4
plot for [i=0:STATS_blocks-1] data index i using 1:2 with lines linetype i+1 title columnheader(1)
