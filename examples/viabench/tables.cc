#include "examples/viabench/tables.h"

#include <algorithm>
#include <map>
#include <vector>

#include "examples/common/nic.h"
#include "examples/viabench/bars.h"

namespace viabench {
namespace {

using via::format;

constexpr std::uint32_t kLarge = 32768;  // of which the processor time is shown everywhere

// The case's figure divided by that of the reference; "" when there is none.
std::string ratio(const Result& r, const Result* reference) {
  if (reference == nullptr || reference == &r) return "";
  return format("%.2f", r.summary()->median / reference->summary()->median);
}

// TCP that waits in the same way, for messages of the same size, with segmentation offload.
const Result* tcp_beside(const Results& all, const Result& r) {
  Case c = r.of;
  if (c.what == "register") {
    c.transport = "copy";
    return all.best(c.id());
  }
  c.transport = "tcp";
  c.level = "-";
  if (c.what == "idle") c.what = "latency", c.others = 0;
  for (const char* offload : {"on", "kept"}) {
    c.offload = offload;
    if (const Result* const found = all.best(c.id())) return found;
  }
  return nullptr;
}

const Result* raw_beside(const Results& all, const Result& r) {
  if (r.of.what == "bandwidth" || r.of.what == "senders") return all.best("bandwidth/raw/");
  if (r.of.what == "rate") return all.best("rate/raw/");
  if (r.of.what != "latency" && r.of.what != "idle") return nullptr;
  return all.best("latency/raw/" + std::to_string(r.of.size));
}

// The property that differs between a table's rows, besides the method.
struct Object {
  const char* title;
  std::string (*of)(const Case&);
};

Object object_of(const std::string& what) {
  const auto size = [](const Case& c) { return std::to_string(c.size); };
  const auto others = [](const Case& c) { return std::to_string(c.others); };
  if (what == "idle") return {"idle VIs", others};
  if (what == "senders") return {"senders", others};
  if (what == "memory") return {"VIs", size};
  if (what == "connect") return {"", [](const Case&) { return std::string(); }};
  return {"bytes", size};
}

std::string remarks(const Result& r) {
  std::string text;
  if (!r.failures.empty()) text = format("failed: %zu ", r.failures.size());
  if (const auto lost = r.summary("lost_share"); lost && lost->median >= 0.0005) {
    text += format("%.1f %% lost ", lost->median * 100);
  }
  if (const auto idle = r.summary("bytes_for_each_idle_vi")) {
    text += number(idle->median) + " for each idle VI ";
  }
  if (!text.empty()) text.pop_back();
  return text;
}

std::string table_of(const Results& all, const std::string& what, Style style) {
  const Figure& figure = figure_of(what);
  const Object object = object_of(what);
  Table table(style, {"how", object.title, figure.unit, "quartiles",
                      what == "register" ? "/copy" : "/TCP", "/raw", "remarks"});
  for (const Result& r : all.all) {
    if (r.of.what != what) continue;
    const auto s = r.summary();
    if (!s) {
      table.add({method(r.of), object.of(r.of), "-", "", "", "", remarks(r)});
      continue;
    }
    table.add({method(r.of), object.of(r.of), number(s->median),
               number(s->q1) + ".." + number(s->q3), ratio(r, tcp_beside(all, r)),
               ratio(r, raw_beside(all, r)), remarks(r)});
  }
  if (table.empty()) return "";
  return heading(style, figure.title) + table.text();
}

// The same with a column for each size, for what is measured with many.
std::string matrix_of(const Results& all, const std::string& what, Style style) {
  std::vector<std::uint32_t> sizes;
  std::vector<std::string> methods;
  std::map<std::string, std::map<std::uint32_t, std::string>> cells;
  for (const Result& r : all.all) {
    if (r.of.what != what) continue;
    const std::string how = method(r.of);
    if (cells.find(how) == cells.end()) methods.push_back(how);
    if (std::find(sizes.begin(), sizes.end(), r.of.size) == sizes.end()) sizes.push_back(r.of.size);
    const auto s = r.summary();
    cells[how][r.of.size] =
        s ? number(s->median) + " (" + number(s->q1) + ".." + number(s->q3) + ")" : "failed";
  }
  if (methods.empty()) return "";
  std::sort(sizes.begin(), sizes.end());
  Row head{"how"};
  for (const std::uint32_t size : sizes) head.push_back(std::to_string(size) + " B");
  Table table(style, head);
  for (const std::string& how : methods) {
    Row row{how};
    for (const std::uint32_t size : sizes) row.push_back(cells[how][size]);
    table.add(row);
  }
  const Figure& figure = figure_of(what);
  return heading(style, std::string(figure.title) + ", " + figure.unit) + table.text();
}

// The processor time that each part spends on a byte.
std::string processor_table(const Results& all, Style style) {
  Table table(style,
              {"how", "bytes", "sender", "its agent", "receiver's agent", "receiver", "sum"});
  for (const Result& r : all.all) {
    if (r.of.what != "bandwidth") continue;
    const auto cell = [&](const char* name) {
      const auto s = r.summary(std::string(name) + "_ns_byte");
      return s ? number(s->median) : std::string();
    };
    if (cell("cpu").empty() ||
        (style == Style::kMarkdown && r.of.size < kLarge && r.of.transport != "raw"))
      continue;
    table.add({method(r.of), std::to_string(r.of.size), cell("near_cpu"), cell("near_agent"),
               cell("far_agent"), cell("far_cpu"), cell("cpu")});
  }
  if (table.empty()) return "";
  return heading(style, "Processor time for a byte of a stream, ns") + table.text();
}

std::string bars_table(const Results& all, Style style) {
  Table table(style, {"bar", "is to be", "is", ""});
  for (const Verdict& v : judge(all)) {
    table.add({v.text, std::string(v.at_most ? "at most " : "at least ") + number(v.limit),
               v.is ? number(*v.is) : "-", v.word()});
  }
  return heading(style, "What is to be reached") + table.text();
}

}  // namespace

std::string method(const Case& c) {
  std::string text = c.transport == "raw"    ? "raw AF_XDP"
                     : c.transport == "tcp"  ? "TCP"
                     : c.transport == "copy" ? "memcpy"
                                             : "VIA " + c.transport;
  if (c.wait != "-") {
    text += c.wait == "block" ? ", blocking" : c.transport == "tcp" ? ", spinning" : ", polling";
  }
  if (c.level != "-") text += ", " + c.level;
  if (c.offload == "on" || c.offload == "off") text += ", offload " + c.offload;
  return text;
}

std::string tables(const Results& results, Style style) {
  std::string out;
  const std::string about =
      format("%s; medians of %u rounds, interleaved", results.hosts.c_str(), results.rounds);
  out += style == Style::kMarkdown
             ? "### MTU " + std::to_string(results.mtu) + "\n\n" + about + ".\n\n"
             : "\n" + about + "\n\n";
  for (const std::string& note : results.notes) {
    out += (style == Style::kMarkdown ? "- " : "") + note + "\n";
  }
  if (!results.notes.empty()) out += "\n";
  for (const char* what :
       {"latency", "bandwidth", "rate", "connect", "register", "idle", "senders", "memory"}) {
    const bool many_sizes = figure_of(what).many_sizes;
    out += many_sizes && style == Style::kMarkdown ? matrix_of(results, what, style)
                                                   : table_of(results, what, style);
    if (std::string(what) == "bandwidth") out += processor_table(results, style);
  }
  return out + bars_table(results, style);
}

}  // namespace viabench
