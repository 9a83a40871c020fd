// viadump: captures VIA frames, reads captures, and says what is in them. See viadump(1).
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>

#include "kagent/contract/control.h"
#include "kagent/tools/viadump/capture_reader.h"
#include "kagent/tools/viadump/extcap.h"
#include "kagent/tools/viadump/live_capture.h"
#include "kagent/tools/viadump/local_capture.h"
#include "kagent/tools/viadump/pipeline.h"
#include "kagent/tools/viactl/agent_client.h"

namespace viaduct::dump {
namespace {

constexpr int kExitOk = 0;
constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr int kWaitBesideLocalMs = 5;  // wait for the interface, if the local path is captured too
constexpr std::size_t kWriteBytes = 64 << 10;  // of short packets at once; long ones are not copied for it
constexpr unsigned kLocalAtOnce = 1024;  // frames

struct Options {
  PipelineOptions pipeline;
  LiveOptions live;
  std::string read, write, socket;
  std::vector<std::string> hosts, types;
  bool print = false, fields = false, json = false, quiet = false, no_agent = false, local = false, yield = false;
  // Options by which Wireshark calls an extcap program.
  bool extcap_interfaces = false, extcap_dlts = false, extcap_config = false, capture = false;
  std::string extcap_interface, fifo, extcap_version, extcap_filter;
};

struct Close {
  void operator()(std::FILE* file) const {
    if (file != stdin && file != stdout) std::fclose(file);
  }
};
using File = std::unique_ptr<std::FILE, Close>;

File open_file(const std::string& name, const char* mode) {
  const bool writing = mode[0] == 'w';
  if (name == "-") return File(writing ? stdout : stdin);
  File file(std::fopen(name.c_str(), mode));
  if (!file) throw std::runtime_error(name + ": " + std::strerror(errno));
  if (writing) std::setvbuf(file.get(), nullptr, _IOFBF, kWriteBytes);
  return file;
}

std::atomic<LiveCapture*> to_stop;
void on_signal(int) {
  if (LiveCapture* const capture = to_stop) capture->stop();
}

class Stopped {
 public:
  explicit Stopped(LiveCapture& capture) {
    to_stop = &capture;
    std::signal(SIGINT, on_signal);
    std::signal(SIGTERM, on_signal);
  }
  ~Stopped() {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    to_stop = nullptr;
  }
};

// Warns of frames that are not seen: those that an XDP program takes and those that AF_XDP sends do not pass where
// libpcap looks. With TCX all frames do.
void say_what_is_not_seen(const std::string& mode, const std::string& interface) {
  if (!mode.starts_with("xdp")) return;
  std::cerr << "viadump: on " << interface << " the agent uses AF_XDP (" << mode << "): frames of hosted programs are "
            << "not seen but for trains, those of programs with ports of their own are\n";
}

void say_how_much(const Pipeline& pipeline, std::uint64_t dropped, const Options& options) {
  if (options.quiet) return;
  std::cerr << "viadump: " << pipeline.packets() << (pipeline.packets() == 1 ? " packet, " : " packets, ")
            << pipeline.frames() << (pipeline.frames() == 1 ? " frame" : " frames");
  if (dropped != 0) std::cerr << "; " << dropped << " packets were lost to the capture, not to their receivers";
  std::cerr << "\n";
}

std::uint64_t now_ns() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

void flush(std::FILE* print, PcapngWriter* writer) {
  if (print != nullptr && std::fflush(print) != 0) throw std::runtime_error("can't write");
  if (writer != nullptr) writer->flush();
}

struct Sources {
  LiveCapture& interface;
  std::unique_ptr<LocalCapture> local;  // nullptr: not wanted
};

std::unique_ptr<LocalCapture> open_local(const Options& options) {
  if (!options.local) return nullptr;
  LocalOptions local;
  local.socket_name = tool::find_socket(options.socket);
  local.interface = options.live.interface;
  local.snap_length = options.live.snap_length;
  local.buffer_bytes = options.live.buffer_bytes;
  return std::make_unique<LocalCapture>(local);
}

// Takes some of the frames that programs of this host have exchanged. False: no more is wanted.
bool take_local(LocalCapture& local, Pipeline& pipeline, const std::vector<CapturedInterface>& interfaces, bool& any) {
  Packet packet;
  for (unsigned n = 0; n < kLocalAtOnce && local.next(packet); ++n) {
    any = true;
    if (!pipeline.take(packet, interfaces)) return false;
  }
  return true;
}

void take_rest(LocalCapture& local, Pipeline& pipeline, const std::vector<CapturedInterface>& interfaces) {
  local.stop();
  bool any = true;
  while (any) {
    any = false;
    if (!take_local(local, pipeline, interfaces, any)) return;
  }
}

template <class Flush>
void run_sources(const Sources& sources, Pipeline& pipeline, const std::vector<CapturedInterface>& interfaces,
                 Flush&& flush) {
  PacketView packet;
  for (;;) {
    bool any = false;
    if (sources.local && !take_local(*sources.local, pipeline, interfaces, any)) return;
    const int wait_ms = any ? 0 : sources.local ? kWaitBesideLocalMs : LiveCapture::kWaitMs;
    switch (sources.interface.next(packet, wait_ms)) {
      case LiveCapture::Got::kNothing: flush(); break;
      case LiveCapture::Got::kPacket:
        if (!pipeline.take(packet, interfaces)) return;
        break;
      case LiveCapture::Got::kEnd:
        if (sources.local) take_rest(*sources.local, pipeline, interfaces);
        return;
    }
  }
}

// Ends the capture of the local path. Returns how many frames were lost to it.
std::uint64_t finish_local(LocalCapture& local, PcapngWriter* writer, const Options& options) {
  local.stop();
  const LocalCapture::Counts counts = local.counts();
  const std::uint64_t lost = counts.missed + counts.no_room;
  if (writer != nullptr) writer->write_statistics(1, now_ns(), counts.received + counts.missed, lost);
  if (counts.broken != 0 && !options.quiet) {
    std::cerr << "viadump: " << counts.broken << " rings between programs had nonsense in them and were given up\n";
  }
  return lost;
}

// Gives this thread, and threads that it makes later, the lowest priority.
void give_way() {
  const sched_param none{};
  if (sched_setscheduler(0, SCHED_IDLE, &none) != 0) throw std::runtime_error("can't give way to other programs");
}

// Captures from an interface. Files are opened after it, so that a capture that can't begin leaves nothing.
int run_live(const Options& options) {
  if (options.yield) give_way();
  LiveCapture capture(options.live);
  const Stopped stopped(capture);
  std::unique_ptr<AgentPrograms> programs;
  if (!options.no_agent) programs = std::make_unique<AgentPrograms>(tool::find_socket(options.socket));
  if (programs && !options.quiet) {
    say_what_is_not_seen(programs->mode_of(options.live.interface), options.live.interface);
  }
  File file;
  std::unique_ptr<PcapngWriter> writer;
  if (!options.write.empty()) {
    file = open_file(options.write, "wb");
    writer = std::make_unique<PcapngWriter>(file.get(), "viadump (viaduct) " PACKAGE_VERSION);
  }
  Sources sources{capture, open_local(options)};
  std::vector<CapturedInterface> interfaces{{options.live.interface, capture.filter(), options.live.snap_length}};
  if (sources.local) interfaces.push_back({options.live.interface + "-local", "", options.live.snap_length});
  std::FILE* const print = writer == nullptr || options.print ? stdout : nullptr;
  Pipeline pipeline(options.pipeline, print, writer.get(), programs.get());
  pipeline.begin(interfaces);
  flush(print, writer.get());
  run_sources(sources, pipeline, interfaces, [&] { flush(print, writer.get()); });
  const LiveCapture::Counts counts = capture.counts();
  std::uint64_t dropped = counts.dropped;
  if (writer) writer->write_statistics(0, now_ns(), counts.received, counts.dropped);
  if (sources.local) dropped += finish_local(*sources.local, writer.get(), options);
  flush(print, writer.get());
  say_how_much(pipeline, dropped, options);
  return kExitOk;
}

int run_file(const Options& options) {
  const File in = open_file(options.read, "rb");
  CaptureReader reader(in.get(), options.read == "-" ? "standard input" : options.read);
  File file;
  std::unique_ptr<PcapngWriter> writer;
  if (!options.write.empty()) {
    file = open_file(options.write, "wb");
    writer = std::make_unique<PcapngWriter>(file.get(), "viadump (viaduct) " PACKAGE_VERSION);
  }
  std::FILE* const print = writer == nullptr || options.print ? stdout : nullptr;
  Pipeline pipeline(options.pipeline, print, writer.get(), nullptr);
  Packet packet;
  while (reader.next(packet) && pipeline.take(packet, reader.interfaces())) packet = {};
  flush(print, writer.get());
  if (reader.left_out() != 0 && !options.quiet) {
    std::cerr << "viadump: " << reader.left_out() << " packets of links other than Ethernet were left out\n";
  }
  if (writer || reader.dropped() != 0) say_how_much(pipeline, reader.dropped(), options);
  return kExitOk;
}

void print_text(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw std::runtime_error("can't write");
  }
}

// Answers Wireshark's questions. True if that was all that it wanted to know.
bool answer_extcap(Options& options) {
  if (options.extcap_interfaces) {
    print_text(extcap_interfaces(ethernet_interfaces(), PACKAGE_VERSION));
  } else if (options.extcap_dlts) {
    print_text(extcap_dlts());
  } else if (options.extcap_config) {
    print_text(extcap_config());
  } else {
    return false;
  }
  return true;
}

// Turns --capture --extcap-interface viaduct-eth0 --fifo PIPE into --interface eth0 --write PIPE.
void take_extcap(Options& options) {
  if (!options.capture) return;
  options.live.interface = interface_of_extcap(options.extcap_interface);
  if (options.live.interface.empty()) {
    throw CLI::ValidationError("--extcap-interface", "\"" + options.extcap_interface + "\" is none of viadump's");
  }
  options.write = options.fifo;
  options.quiet = true;
}

std::string check_type(const std::string& value) {
  wire::Type type;
  return parse_type(value, type) ? "" : "\"" + value + "\" is no type of frame, see viaduct-wire(7)";
}

std::string check_address(const std::string& value) {
  MacAddress address;
  return parse_address(value, address) ? "" : "\"" + value + "\" is no Ethernet address";
}

void add_source_options(CLI::App& app, Options& options) {
  app.add_option("-i,--interface", options.live.interface, "capture on this interface")->type_name("INTERFACE");
  app.add_option("-r,--read", options.read, "read this capture (pcap or pcapng; - is standard input)")
      ->type_name("FILE");
  app.add_option("-w,--write", options.write, "write pcapng to this file (- is standard output)")->type_name("FILE");
  app.add_flag("--print", options.print, "print too when writing");
  app.add_option("-c,--count", options.pipeline.count, "end after so many packets")->type_name("N");
  app.add_option("-s,--snap-length", options.pipeline.snap_length, "keep no more of a packet than this")
      ->type_name("BYTES")
      ->check(CLI::Range(14, 262144));
  app.add_flag("--headers-only", options.pipeline.headers_only, "without the data of messages");
  app.add_option("--buffer", options.live.buffer_bytes, "bytes of the kernel's buffer (default: 32 MiB)")
      ->type_name("BYTES")
      ->check(CLI::Range(65536, 1 << 30));
  app.add_flag("-l,--local", options.local, "what programs of this host exchange through memory too")
      ->needs("--interface");
  app.add_flag("--yield", options.yield, "use only processor time that nobody else wants; lose packets rather")
      ->needs("--interface");
  app.add_flag("-p,--promiscuous", options.live.promiscuous, "frames for other hosts too");
}

void add_filter_options(CLI::App& app, Options& options) {
  app.add_option("--vi", options.pipeline.filter.vis, "only frames of this VI, at either end; several may be named")
      ->type_name("VI");
  app.add_option("--host", options.hosts, "only frames from or to this address; several may be named")
      ->type_name("ADDRESS")
      ->check(check_address);
  app.add_option("--type", options.types, "only frames of this type, as data or connect_request; several may be named")
      ->type_name("TYPE")
      ->check(check_type);
  app.add_option("--pid", options.pipeline.filter.process,
                 "only frames of this process; the agent says which VIs it has")
      ->type_name("PID");
  app.add_flag("--refused", options.pipeline.filter.only_refused, "only frames that a receiver drops");
  app.add_option("--ether-type", options.pipeline.ether_type, "EtherType of the frames (default: 0x88b5)")
      ->type_name("NUMBER");
}

void add_print_options(CLI::App& app, Options& options) {
  app.add_flag("-V,--fields", options.fields, "all fields below each line");
  app.add_flag("-j,--json", options.json, "an object of JSON for each frame, one a line");
  const std::map<std::string, TimeStyle> times{
      {"clock", TimeStyle::kClock}, {"epoch", TimeStyle::kEpoch}, {"relative", TimeStyle::kRelative}};
  app.add_option("-t,--time", options.pipeline.time, "clock, epoch or relative (default: clock)")
      ->type_name("STYLE")
      ->transform(CLI::CheckedTransformer(times));
  app.add_flag("-q,--quiet", options.quiet, "do not say at the end how much there was");
  app.add_option("--socket", options.socket, "where the agent is (default: as programs look for it)")
      ->type_name("PATH|@NAME");
  app.add_flag("--no-agent", options.no_agent, "do not ask the agent for the names of programs");
}

void add_extcap_options(CLI::App& app, Options& options) {
  const auto hidden = [](CLI::Option* option) { option->group(""); };
  hidden(app.add_flag("--extcap-interfaces", options.extcap_interfaces));
  hidden(app.add_flag("--extcap-dlts", options.extcap_dlts));
  hidden(app.add_flag("--extcap-config", options.extcap_config));
  hidden(app.add_flag("--capture", options.capture));
  hidden(app.add_option("--extcap-interface", options.extcap_interface));
  hidden(app.add_option("--extcap-version", options.extcap_version));
  hidden(app.add_option("--extcap-capture-filter", options.extcap_filter));
  hidden(app.add_option("--fifo", options.fifo));
}

// Checks and settings that need all options.
void finish_options(Options& options) {
  take_extcap(options);
  if (options.live.interface.empty() == options.read.empty()) {
    throw CLI::ValidationError("either --interface or --read must be given");
  }
  if (options.pipeline.filter.process != 0 && (!options.read.empty() || options.no_agent)) {
    throw CLI::ValidationError("--pid needs a live capture and the agent");
  }
  if (options.local && options.no_agent) throw CLI::ValidationError("--local needs the agent");
  if (options.write == "-" && options.print) throw CLI::ValidationError("--print and --write - do not go together");
  for (const std::string& host : options.hosts) {
    MacAddress address;
    parse_address(host, address);
    options.pipeline.filter.hosts.push_back(address);
  }
  for (const std::string& word : options.types) {
    wire::Type type;
    parse_type(word, type);
    options.pipeline.filter.types.push_back(type);
  }
  if (options.fields) options.pipeline.style = Style::kFields;
  if (options.json) options.pipeline.style = Style::kJson;
  options.live.ether_type = options.pipeline.ether_type;
  options.live.snap_length = options.pipeline.snap_length;
  // Frames to be judged or printed are needed whole, though only their headers are kept.
  options.live.cut_data = options.pipeline.headers_only && options.pipeline.filter.wants_all() &&
                          !options.write.empty() && !options.print;
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Captures VIA frames, reads captures and says what is in them.", "viadump");
  app.set_version_flag("--version", "viadump (viaduct) " PACKAGE_VERSION);
  add_source_options(app, options);
  add_filter_options(app, options);
  add_print_options(app, options);
  add_extcap_options(app, options);
  app.footer("Examples:\n  sudo viadump -i eth0\n  sudo viadump -i eth0 --headers-only -w frames.pcapng\n"
             "  viadump -r frames.pcapng --vi 3\n  viadump -r frames.pcapng --refused --fields\n"
             "  sudo viadump -i eth0 --pid 1234 --json");
  try {
    app.parse(argc, argv);
    if (answer_extcap(options)) return kExitOk;
    finish_options(options);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << "viadump: " << error.what() << "\nTry 'viadump --help'.\n";
    return kExitUsage;
  }
  return options.read.empty() ? run_live(options) : run_file(options);
}

}  // namespace
}  // namespace viaduct::dump

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);
  try {
    return viaduct::dump::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "viadump: " << error.what() << "\n";
  } catch (...) {
    std::cerr << "viadump: unknown failure\n";
  }
  return viaduct::dump::kExitFailure;
}
