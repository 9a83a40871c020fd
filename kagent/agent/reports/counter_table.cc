#include "kagent/agent/reports/counter_table.h"

#include <string_view>

#include "kagent/agent/config/config.h"

namespace viaduct {
namespace {

struct PortRow {
  const char* name;
  const char* text;
  std::uint64_t PortCounters::*value;
};
constexpr PortRow kPortRows[] = {
    {"rx_frames", "frames received", &PortCounters::rx_frames},
    {"rx_bytes", "bytes received", &PortCounters::rx_bytes},
    {"tx_frames", "frames sent", &PortCounters::tx_frames},
    {"tx_bytes", "bytes sent", &PortCounters::tx_bytes},
    {"tx_kicks", "system calls made to send", &PortCounters::tx_kicks},
    {"tx_kick_again", "system calls to send that the kernel cut short",
     &PortCounters::tx_kick_again},
    {"tx_dropped_busy", "system calls to send after which driver or queue dropped",
     &PortCounters::tx_dropped_busy},
    {"tx_no_buffer", "times there were fewer buffers to send from than wanted",
     &PortCounters::tx_no_buffer},
    {"tx_stalls", "times the completion of sent frames was overdue", &PortCounters::tx_stalls},
    {"rx_dropped_ring_full", "frames dropped by the kernel: receive ring full",
     &PortCounters::rx_dropped_ring_full},
    {"rx_dropped_no_fill", "frames dropped: fill ring empty, or nowhere to put a long one together",
     &PortCounters::rx_dropped_no_fill},
    {"rx_dropped_invalid", "frames dropped: too long, or other causes in the kernel",
     &PortCounters::rx_dropped_invalid},
    {"tx_dropped_invalid", "frames dropped by the kernel: invalid transmit descriptors",
     &PortCounters::tx_dropped_invalid},
    {"rebinds", "times the socket was set up anew after a stall", &PortCounters::rebinds},
};
static_assert(sizeof(PortCounters) == std::size(kPortRows) * sizeof(std::uint64_t));

struct TrainRow {
  const char* name;
  const char* text;
  std::uint64_t TrainSocket::Counters::*value;
};
constexpr TrainRow kTrainRows[] = {
    {"rx_trains", "trains received", &TrainSocket::Counters::rx_trains},
    {"rx_frames", "frames received by train", &TrainSocket::Counters::rx_frames},
    {"rx_bytes", "bytes received by train", &TrainSocket::Counters::rx_bytes},
    {"tx_trains", "trains sent", &TrainSocket::Counters::tx_trains},
    {"tx_frames", "frames sent by train", &TrainSocket::Counters::tx_frames},
    {"tx_bytes", "bytes sent by train", &TrainSocket::Counters::tx_bytes},
    {"tx_refused", "trains that the kernel would not send, and went otherwise",
     &TrainSocket::Counters::tx_refused},
    {"rx_wrong_source", "trains dropped: from an address that no peer has told",
     &TrainSocket::Counters::rx_wrong_source},
    {"rx_wrong_frame", "trains dropped: a frame of another source, or of a type that may not come so",
     &TrainSocket::Counters::rx_wrong_frame},
    {"rx_no_buffer", "times all buffers for trains were in use", &TrainSocket::Counters::rx_no_buffer},
};
static_assert(sizeof(TrainSocket::Counters) == std::size(kTrainRows) * sizeof(std::uint64_t));

struct GrantedRow {
  const char* name;
  const char* text;
  std::uint64_t GrantedCounters::*value;
};
constexpr GrantedRow kGrantedRows[] = {
    {"tx_frames", "frames that programs sent through their own ports", &GrantedCounters::passed},
    {"filter_forged_source", "frames of programs dropped: another source address",
     &GrantedCounters::forged_source},
    {"filter_wrong_type", "frames of programs dropped: another EtherType",
     &GrantedCounters::wrong_type},
    {"filter_too_long", "frames of programs dropped: longer than the interface allows",
     &GrantedCounters::too_long},
    {"filter_forbidden",
     "frames of programs dropped: names, to everybody, another host's connection, or port taken "
     "away",
     &GrantedCounters::forbidden},
    {"rx_dropped_ring_full", "frames dropped by the kernel: program's receive ring full",
     &GrantedCounters::rx_dropped_ring_full},
    {"rx_dropped_no_fill", "frames dropped by the kernel: program's fill ring empty",
     &GrantedCounters::rx_dropped_no_fill},
    {"rx_dropped_invalid", "frames dropped by the kernel: other causes",
     &GrantedCounters::rx_dropped_invalid},
    {"tx_dropped_invalid", "frames dropped by the kernel: program's invalid transmit descriptors",
     &GrantedCounters::tx_dropped_invalid},
};
static_assert(sizeof(GrantedCounters) == std::size(kGrantedRows) * sizeof(std::uint64_t));

struct GaugeRow {
  const char* name;
  const char* text;
  std::uint32_t Stack::Usage::*value;
  std::uint32_t StackLimits::*limit;  // null: none
};
constexpr GaugeRow kGaugeRows[] = {
    {"sessions", "sessions", &Stack::Usage::sessions, &StackLimits::sessions},
    {"attached", "processes that have attached to sessions", &Stack::Usage::members,
     &StackLimits::members},
    {"vis", "VIs", &Stack::Usage::vis, &StackLimits::vis},
    {"connected_vis", "connected VIs", &Stack::Usage::connected, nullptr},
    {"cqs", "completion queues", &Stack::Usage::cqs, &StackLimits::cqs},
    {"regions", "registered memory regions", &Stack::Usage::regions, &StackLimits::regions},
    {"ptags", "protection tags", &Stack::Usage::ptags, &StackLimits::ptags},
    {"peers", "hosts that VIs are connected to", &Stack::Usage::peers, &StackLimits::peers},
    {"requests", "connection requests", &Stack::Usage::requests, &StackLimits::requests},
    {"goodbyes", "disconnects that wait for an answer", &Stack::Usage::goodbyes,
     &StackLimits::goodbyes},
    {"held_frames", "frames kept because an earlier one is missing", &Stack::Usage::held,
     &StackLimits::held},
    {"claims", "TCP connections and UDP sockets that agents have vouched for", &Stack::Usage::claims, nullptr},
};
static_assert(sizeof(Stack::Usage) == std::size(kGaugeRows) * sizeof(std::uint32_t));

// A value of a label; the format knows three characters that must be escaped.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

class Writer {
 public:
  void family(std::string_view group, std::string_view name, std::string_view text,
              std::string_view type) {
    name_ = "viaduct_";
    name_.append(group).append("_").append(name);
    out_.append("# HELP ").append(name_).append(" ").append(text).append("\n");
    out_.append("# TYPE ").append(name_).append(" ").append(type).append("\n");
  }
  void row(const std::string& labels, std::uint64_t value) {
    out_.append(name_);
    if (!labels.empty()) out_.append("{").append(labels).append("}");
    out_.append(" ").append(std::to_string(value)).append("\n");
  }
  std::string take() { return std::move(out_); }

 private:
  std::string name_;
  std::string out_;
};

std::string label(const NicReport& nic) { return "nic=" + in_quotes(nic.interface); }

void describe(Writer& out, std::span<const NicReport> nics) {
  out.family("nic", "up", "1 while the interface is there", "gauge");
  for (const NicReport& nic : nics) out.row(label(nic), nic.live.has_value());
  out.family("nic", "info", "what carries the frames, and the address", "gauge");
  for (const NicReport& nic : nics) {
    if (!nic.live) continue;
    out.row(label(nic) + ",mode=" + in_quotes(nic.live->mode) +
                ",address=" + in_quotes(to_text(nic.live->address)),
            1);
  }
  out.family("nic", "mtu_bytes", "bytes that fit behind the Ethernet header", "gauge");
  for (const NicReport& nic : nics) {
    if (nic.live) out.row(label(nic), nic.live->mtu);
  }
}

void gauges(Writer& out, std::span<const NicReport> nics) {
  for (const GaugeRow& gauge : kGaugeRows) {
    out.family("nic", gauge.name, std::string(gauge.text) + " in use", "gauge");
    for (const NicReport& nic : nics) {
      if (nic.live) out.row(label(nic), nic.live->usage.*gauge.value);
    }
    if (gauge.limit == nullptr) continue;
    out.family("nic", std::string(gauge.name) + "_limit", std::string(gauge.text) + " at most",
               "gauge");
    for (const NicReport& nic : nics) out.row(label(nic), nic.limits.*gauge.limit);
  }
}

void ports(Writer& out, std::span<const NicReport> nics) {
  for (const PortRow& counter : kPortRows) {
    out.family("port", counter.name, counter.text, "counter");
    for (const NicReport& nic : nics) {
      if (nic.live) out.row(label(nic), nic.live->port.*counter.value);
    }
  }
}

void trains(Writer& out, std::span<const NicReport> nics) {
  for (const TrainRow& counter : kTrainRows) {
    out.family("train", counter.name, counter.text, "counter");
    for (const NicReport& nic : nics) {
      if (nic.live) out.row(label(nic), nic.live->trains.*counter.value);
    }
  }
}

void granted(Writer& out, std::span<const NicReport> nics) {
  out.family("granted", "ports", "ports that programs have now", "gauge");
  for (const NicReport& nic : nics) {
    if (nic.live) out.row(label(nic), nic.live->granted_ports);
  }
  out.family("granted", "ready", "ports made ahead, for programs that begin", "gauge");
  for (const NicReport& nic : nics) {
    if (nic.live) out.row(label(nic), nic.live->granted_ready);
  }
  out.family("granted", "made", "ports that programs were given", "counter");
  for (const NicReport& nic : nics) {
    if (nic.live) out.row(label(nic), nic.live->granted_made);
  }
  for (const GrantedRow& counter : kGrantedRows) {
    out.family("granted", counter.name, counter.text, "counter");
    for (const NicReport& nic : nics) {
      if (nic.live) out.row(label(nic), nic.live->granted.*counter.value);
    }
  }
}

// The stacks' counters come NIC by NIC and are wanted counter by counter.
void stacks(Writer& out, std::span<const NicReport> nics) {
  std::vector<std::vector<std::uint64_t>> values;
  for (const NicReport& nic : nics) {
    std::vector<std::uint64_t>& column = values.emplace_back();
    if (!nic.live) continue;
    for_each(nic.live->stack,
             [&column](const char*, const char*, std::uint64_t v) { column.push_back(v); });
  }
  std::size_t row = 0;
  for_each(StackCounters{}, [&](const char* name, const char* text, std::uint64_t) {
    out.family("stack", name, text, "counter");
    for (std::size_t i = 0; i < nics.size(); ++i) {
      if (nics[i].live) out.row(label(nics[i]), values[i][row]);
    }
    ++row;
  });
}

}  // namespace

std::string counter_table(std::span<const NicReport> nics, const ServiceCounters& service) {
  Writer out;
  describe(out, nics);
  gauges(out, nics);
  ports(out, nics);
  trains(out, nics);
  granted(out, nics);
  stacks(out, nics);
  for_each(service, [&out](const char* name, const char* text, std::uint64_t value) {
    out.family("service", name, text, "counter");
    out.row("", value);
  });
  out.family("service", "longest_round_ns", "the longest round of the service loop", "gauge");
  out.row("", service.longest_round_ns);
  return out.take();
}

}  // namespace viaduct
