# Runs one file of SQLite's permutation "veryquick", or prints the names of all its files, one a line, without FILE:
#
#     SOURCE=… testfixture suite.tcl [FILE]
#
# Of the tests that exist for connections of one process and of several, those of one run: SQLite leaves the others out, too,
# for its own VFS that keeps other processes out (`unix-excl`), and under valgrind.
set argv0 $env(SOURCE)/test/suite.tcl
set file [lindex $argv 0]
set argv {}
source $env(SOURCE)/test/permutations.test
if {$file eq ""} {
  foreach file [dict get $testspec(veryquick) -files] { puts "FILE [file tail $file]" }
  exit 0
}
set G(valgrind) 1
# Files of extensions are elsewhere.
set path [lsearch -inline -glob [dict get $testspec(veryquick) -files] */$file]
run_tests veryquick {*}$testspec(veryquick) -files [expr {$path eq "" ? $file : $path}]
finish_test
