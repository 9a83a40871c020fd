#include "examples/viabench/paper_figures.h"

namespace viabench {
namespace {

using Rows = std::vector<PaperRow>;

// Kernel TCP, waiting as most programs do; the papers' with Nagle's algorithm where they stream.
constexpr PaperRow tcp(double left, double right) { return {"TCP", "tcp", "block", "-", 0, left, right}; }
constexpr PaperRow tcp_stream(double left, double right) {
  return {"TCP", "tcp", "block", "nagle", 0, left, right};
}
constexpr PaperRow vipl(const char* name, double left, double right) {
  return {name, "via", "poll", "rd", 0, left, right};
}
// A configuration of SOVIA's, whose calls block: the others do not register memory.
constexpr PaperRow sovia(const char* config, double left, double right) {
  return {config, "sovia", "block", config, 0, left, right};
}
constexpr PaperRow credits(const char* name, std::uint32_t window) {
  return {name, "sovia", "block", "DS_DA", window, 0, 0};
}

// `others` is requests for each connection.
constexpr PaperRow web(const char* name, const char* transport, std::uint32_t others) {
  return {name, transport, "block", transport[0] == 's' ? "default" : "-", others, 0, 0};
}
// SDP's sockets beside TCP; the paper's figures are its peaks.
PaperFigure crowd(const char* name, const char* title, const char* what, double tcp, double sdp) {
  return {name, title, what, "TCP", Axis::kConnections,
          Rows{{"TCP", "tcp", "block", "-", 0, 0, tcp}, {"SOVIA", "sovia", "block", "default", 0, 0, sdp}}};
}

std::vector<PaperFigure> make() {
  std::vector<PaperFigure> all;
  // SOVIA, ICS 2001: on cLAN, but NOTIFY, which is on M-VIA alone (88.5 us, TCP 75.6).
  all.push_back({"sovia-figure-5", "SOVIA figure 5: message handling strategies, latency", "latency",
                 "TCP", Axis::kSize,
                 Rows{tcp(54.9, 0), sovia("NOTIFY", 88.5 / 75.6 * 54.9, 0), sovia("HANDLER", 29.9, 0),
                      sovia("SINGLE", 12.3, 0), vipl("VIA", 8.3, 0)}});
  all.push_back({"sovia-figure-6", "SOVIA figure 6: registering memory against copying", "register",
                 "memcpy", Axis::kSize,
                 Rows{{"memcpy", "copy", "-", "-", 0, 0, 0}, {"registering", "via", "-", "-", 0, 0, 0}}});
  all.push_back({"sovia-table-3", "SOVIA tables 2 and 3: registered, copied, hybrid, latency", "latency",
                 "VIA", Axis::kSize,
                 Rows{vipl("VIA", 8.3, 329.0), sovia("REG", 12.3, 461.1), sovia("COPY", 10.5, 603.2),
                      sovia("HYBRID", 10.5, 460.6)}});
  all.push_back({"sovia-table-4", "SOVIA table 4: all configurations, latency", "latency", "SINGLE", Axis::kOneSize,
                 Rows{sovia("NOTIFY", 88.5 / 57.6 * 12.3, 0), sovia("HANDLER", 29.9, 0), sovia("SINGLE", 12.3, 0),
                      sovia("REG", 12.3, 0), sovia("COPY", 10.5, 0), sovia("HYBRID", 10.5, 0), sovia("BASE", 10.5, 0),
                      sovia("FLOWCNTL", 0, 0), sovia("DACKS", 0, 0), sovia("COMBINE", 0, 0)}});
  all.push_back({"sovia-figure-7", "SOVIA figure 7: without flow control, bandwidth", "bandwidth", "VIA", Axis::kSize,
                 Rows{tcp_stream(0, 450), vipl("VIA", 0, 815), sovia("BASE", 0, 0)}});
  all.push_back({"sovia-figure-8", "SOVIA figure 8: flow control, delayed acknowledgements, combining, bandwidth",
                 "bandwidth", "VIA", Axis::kSize,
                 Rows{tcp_stream(0, 450), vipl("VIA", 0, 815), sovia("BASE", 0, 0), sovia("FLOWCNTL", 0, 0),
                      sovia("DACKS", 0, 814), sovia("COMBINE", 0, 814)}});
  all.push_back({"sovia-figure-10", "SOVIA figure 10: processor time of a stream, COMBINE, blocking", "share", nullptr,
                 Axis::kSize, Rows{{"sender", "sovia", "block", "COMBINE", 0, 0, 10.1},
                             {"receiver", "sovia", "block", "COMBINE", 0, 0, 0}}});
  all.push_back({"sovia-polling", "SOVIA section 4.3: polling against blocking, latency", "latency",
                 "polling", Axis::kOneSize,
                 Rows{{"polling", "sovia", "poll", "default", 0, 10.5, 0},
                      {"blocking", "sovia", "block", "default", 0, 19.4, 0}}});
  // KSOVIA: only what its text tells of figure 4 can be read.
  all.push_back({"ksovia-figure-4", "KSOVIA figure 4: latency", "latency", "VIPL", Axis::kSize,
                 Rows{vipl("VIPL_POLL", 0, 0), {"VIPL", "via", "block", "rd", 0, 18.2, 0},
                      {"SOVIA_POLL", "sovia", "poll", "default", 0, 0, 0},
                      {"SOVIA", "sovia", "block", "default", 0, 19.5, 0},
                      {"LANEVI", "lanevi", "block", "-", 0, 27.2, 0}, tcp(0, 0)}});
  all.push_back({"ksovia-figure-6", "KSOVIA figure 6: bandwidth", "bandwidth", "VIPL", Axis::kSize,
                 Rows{vipl("VIPL_POLL", 0, 0), {"VIPL", "via", "block", "rd", 0, 0, 0},
                      {"SOVIA_POLL", "sovia", "poll", "default", 0, 0, 0},
                      {"SOVIA", "sovia", "block", "default", 0, 0, 0},
                      {"LANEVI", "lanevi", "block", "nagle", 0, 0, 0}, tcp_stream(0, 0)}});
  // Balaji's proposal: EMP, SocketVIA, SDP.
  all.push_back({"emp-figure-24", "EMP figures 22 and 24: data streaming and datagrams, latency", "latency",
                 "TCP", Axis::kSize,
                 Rows{tcp(120, 0), sovia("DS", 0, 0), sovia("DS_DA", 0, 0),
                      {"messages", "sovia", "block", "messages", 0, 28.5, 0}, vipl("VIA", 27.5, 0)}});
  all.push_back({"emp-figure-23", "EMP figure 23: latency by credits", "latency", "32 credits", Axis::kOneSize,
                 Rows{credits("1 credit", 1), credits("2 credits", 2), credits("4 credits", 4), credits("8 credits", 8),
                      credits("16 credits", 16), credits("32 credits", 32)}});
  all.push_back({"socketvia-figure-26a", "SocketVIA figure 26a: latency", "latency", "TCP", Axis::kSize,
                 Rows{tcp(47.5, 0), {"SocketVIA", "sovia", "block", "default", 0, 9.5, 0}, vipl("VIA", 0, 0)}});
  all.push_back({"socketvia-figure-26b", "SocketVIA figure 26b: bandwidth", "bandwidth", "TCP", Axis::kSize,
                 Rows{tcp_stream(0, 510), {"SocketVIA", "sovia", "block", "default", 0, 0, 763}, vipl("VIA", 0, 795)}});
  all.push_back({"sdp-figure-27a", "SDP figure 27a: latency", "latency", "TCP", Axis::kSize,
                 Rows{tcp(30, 0), sovia("BCOPY", 28, 0), sovia("ZCOPY", 0, 0), vipl("VIA", 7, 0)}});
  all.push_back({"sdp-figure-27b", "SDP figure 27b: bandwidth", "bandwidth", "TCP", Axis::kSize,
                 Rows{tcp_stream(0, 169), sovia("BCOPY", 0, 471), sovia("ZCOPY", 0, 0), vipl("VIA", 0, 825)}});
  all.push_back({"emp-figure-25", "EMP figure 25: a web server, time of a request", "web", "TCP, 1", Axis::kSize,
                 Rows{web("TCP, 1", "tcp", 1), web("SOVIA, 1", "sovia", 1), web("TCP, 8", "tcp", 8),
                      web("SOVIA, 8", "sovia", 8)}});
  all.push_back(crowd("sdp-figure-28", "SDP figure 28: many streams, bandwidth", "streams", 200, 500));
  all.push_back(crowd("sdp-figure-29", "SDP figure 29: hot spot, latency", "hotspot", 0, 0));
  all.push_back(crowd("sdp-figure-30a", "SDP figure 30a: fan-in, bandwidth", "fanin", 237, 687));
  all.push_back(crowd("sdp-figure-30b", "SDP figure 30b: fan-out, bandwidth", "fanout", 175, 477));
  return all;
}

}  // namespace

const std::vector<PaperFigure>& paper_figures() {
  static const std::vector<PaperFigure> all = make();
  return all;
}

std::vector<std::string> paper_figure_names() {
  std::vector<std::string> names;
  for (const PaperFigure& figure : paper_figures()) names.emplace_back(figure.name);
  return names;
}

}  // namespace viabench
