#include "examples/viabench/plots.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "examples/common/nic.h"
#include "examples/viabench/tables.h"
#include "examples/viabench/worker.h"

namespace viabench {
namespace {

using via::Failure;

// One picture: its data file and its script have its name.
class Plot {
 public:
  Plot(const std::string& directory, const std::string& name) : base_(directory + "/" + name) {}

  std::string base() const { return base_; }
  std::ofstream& data() { return data_; }

  // Draws it twice. `commands`: all but where the picture goes.
  void draw(const std::string& commands) {
    data_.close();
    {
      std::ofstream script(base_ + ".gp");
      script << "set key outside right top\nset grid\n";
      script << "set terminal svg size 1000,600 noenhanced\nset output '" << base_ << ".svg'\n"
             << commands << "\nset terminal pngcairo size 1000,600 noenhanced\nset output '"
             << base_ << ".png'\n"
             << "replot\n";
    }
    std::string output;
    if (run_program({"gnuplot", base_ + ".gp"}, &output) != 0) {
      throw Failure("gnuplot: " + output);
    }
  }

 private:
  std::string base_;
  std::ofstream data_{base_ + ".dat"};
};

// Figure over size: a line for each way of measuring.
void lines(const Results& all, const std::string& directory, const std::string& what) {
  std::vector<std::string> methods;
  std::map<std::string, std::vector<const Result*>> points;
  for (const Result& r : all.all) {
    if (r.of.what != what || !r.summary()) continue;
    const std::string m = method(r.of);
    if (points[m].empty()) methods.push_back(m);
    points[m].push_back(&r);
  }
  if (methods.empty()) return;
  Plot plot(directory, what);
  std::string curves;
  for (std::size_t i = 0; i < methods.size(); ++i) {
    plot.data() << "# " << methods[i] << ": size, median, quartiles\n";
    for (const Result* r : points[methods[i]]) {
      const Summary s = *r->summary();
      plot.data() << r->of.size << ' ' << s.median << ' ' << s.q1 << ' ' << s.q3 << '\n';
    }
    plot.data() << "\n\n";
    curves += (i == 0 ? "plot " : ", ") + ("'" + plot.base() + ".dat'") + " index " +
              std::to_string(i) + " using 1:2:3:4 with yerrorlines title '" + methods[i] + "'";
  }
  const Figure& figure = figure_of(what);
  plot.draw(std::string("set title '") + figure.title + "'\nset ylabel '" + figure.unit +
            "'\nset xlabel 'bytes of a message'\nset logscale x 2\n" +
            (figure.less_is_better ? "set logscale y\n" : "set yrange [0:*]\n") + curves);
}

// A bar for each way of measuring.
void boxes(const Results& all, const std::string& directory, const std::string& what) {
  Plot plot(directory, what);
  bool any = false;
  for (const Result& r : all.all) {
    if (r.of.what != what || !r.summary()) continue;
    any = true;
    const Summary s = *r.summary();
    std::string label = method(r.of);
    if (r.of.others > 0) label += ", " + std::to_string(r.of.others);
    plot.data() << '"' << label << "\" " << s.median << ' ' << s.q1 << ' ' << s.q3 << '\n';
  }
  if (!any) {
    std::filesystem::remove(plot.base() + ".dat");
    return;
  }
  const Figure& figure = figure_of(what);
  plot.draw(std::string("set title '") + figure.title + "'\nset ylabel '" + figure.unit +
            "'\nset style fill solid 0.5\nset boxwidth 0.7\nset yrange [0:*]\n"
            "set xtics rotate by -40\nplot '" +
            plot.base() +
            ".dat' using 0:2:xtic(1) with boxes notitle, '' using 0:2:3:4 with yerrorbars notitle");
}

}  // namespace

void write_plots(const Results& results, const std::string& directory) {
  std::string version;
  if (run_program({"gnuplot", "--version"}, &version) != 0) {
    throw Failure("no plots: gnuplot is not installed (Debian: gnuplot-nox)");
  }
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw Failure("no plots: " + directory + ": " + error.message());
  for (const char* what : {"latency", "bandwidth", "rate", "connect", "idle", "senders"}) {
    figure_of(what).many_sizes ? lines(results, directory, what) : boxes(results, directory, what);
  }
}

}  // namespace viabench
