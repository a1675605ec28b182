// What does ceph/dmclock cost for a request, what does its dearest single call, and what does it do in three cases in which a
// scheduler must not fail? The load is that of crates/core/benches/tenants: all clients four deep, weights 1 to 16, one pull and
// one add by the same client in turn, a virtual clock of a microsecond each. Times are those of this thread on a processor.

#include "dmclock_server.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <sys/resource.h>

namespace dmc = crimson::dmclock;

struct Request {
  uint32_t client;
};

constexpr double START = 1000.0;
constexpr int BACKLOG = 4;

static double cpu_seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec + now.tv_nsec / 1e9;
}

static double thread_nanos() {
  return cpu_seconds(CLOCK_THREAD_CPUTIME_ID) * 1e9;
}

static unsigned weight(uint32_t client) {
  return (client * 0x9E3779B9u >> 28) + 1;
}

static double median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of[of.size() / 2];
}

// As Ceph uses it: tags are calculated when a request becomes the first of its client, information on clients may change.
using Pull = dmc::PullPriorityQueue<uint32_t, Request, true, true, 2>;
using Rejecting = dmc::PullPriorityQueue<uint32_t, Request, false, false, 2>;
using Push = dmc::PushPriorityQueue<uint32_t, Request, true, false, 2>;

struct Clients {
  std::vector<dmc::ClientInfo> infos;

  Clients(uint32_t count, bool reserves, double limit) {
    for (uint32_t client = 0; client < count; client++) {
      double reservation = reserves ? std::max(1.0, 1e6 / count / 20) : 0;
      infos.emplace_back(reservation, weight(client), limit);
    }
  }

  std::function<const dmc::ClientInfo*(const uint32_t&)> get() {
    return [this](const uint32_t& client) { return &infos[client % infos.size()]; };
  }
};

static void turns(uint32_t count, bool limited, long turns) {
  Clients clients(count, true, limited ? 1e9 : 0);
  Pull queue(clients.get());
  dmc::ReqParams params;
  double now = START;
  for (int deep = 0; deep < BACKLOG; deep++)
    for (uint32_t client = 0; client < count; client++)
      queue.add_request_time(Request{client}, client, params, now);
  auto run = [&](long turns) {
    for (long turn = 0; turn < turns; turn++) {
      now += 1e-6;
      auto pulled = queue.pull_request(now);
      if (!pulled.is_retn()) {
        fprintf(stderr, "nothing to pull\n");
        exit(1);
      }
      uint32_t client = pulled.get_retn().client;
      queue.add_request_time(Request{client}, client, params, now);
    }
  };
  run(std::max(turns / 4, 2l * count));
  double start = thread_nanos();
  run(turns);
  printf("turn %u %.1f\n", count, (thread_nanos() - start) / turns);
}

// The first pull after the limits of all clients have ended at once.
static void mature(uint32_t count) {
  std::vector<double> nanos;
  for (int round = 0; round < 7; round++) {
    Clients clients(count, false, 1);
    Pull queue(clients.get());
    dmc::ReqParams params;
    for (int deep = 0; deep < BACKLOG; deep++)
      for (uint32_t client = 0; client < count; client++)
        queue.add_request_time(Request{client}, client, params, START);
    while (queue.pull_request(START).is_retn()) {}
    double start = thread_nanos();
    bool done = queue.pull_request(START + 10).is_retn();
    nanos.push_back(thread_nanos() - start);
    if (!done) exit(1);
  }
  printf("mature %u %.1f\n", count, median(nanos));
}

// An add by a client that has not been seen, while all others ask.
static void newcomer(uint32_t count) {
  Clients clients(count, true, 0);
  Pull queue(clients.get());
  dmc::ReqParams params;
  for (uint32_t client = 0; client < count; client++)
    queue.add_request_time(Request{client}, client, params, START);
  double start = thread_nanos();
  for (uint32_t newcomer = 0; newcomer < 64; newcomer++)
    queue.add_request_time(Request{count + newcomer}, count + newcomer, params, START + 1e-6);
  printf("newcomer %u %.1f\n", count, (thread_nanos() - start) / 64);
}

// Two clients of equal weight, a request a millisecond; one pauses and returns eight deep. How long gets the other nothing?
static void pause(double weight, double span) {
  dmc::ClientInfo info(0, weight, 0);
  Pull queue([&](const uint32_t&) { return &info; });
  dmc::ReqParams params;
  int queued[2] = {0, 0};
  double last = 0, longest = 0;
  for (long step = 0; step < (long)((1 + span + 200) * 1000); step++) {
    double now = START + step * 1e-3;
    bool is_away = step >= 1000 && step < (1 + span) * 1000;
    for (uint32_t client = 0; client < 2; client++)
      for (; queued[client] < 8 && !(client == 1 && is_away); queued[client]++)
        queue.add_request_time(Request{client}, client, params, now);
    auto pulled = queue.pull_request(now);
    if (!pulled.is_retn()) continue;
    uint32_t client = pulled.get_retn().client;
    queued[client]--;
    if (client == 0) {
      if (step >= (1 + span) * 1000) longest = std::max(longest, now - last);
      last = now;
    }
  }
  printf("pause weight=%g,seconds=%g %.3f\n", weight, span, longest);
}

// What part of a limit of 1,000 a second is accepted if more or less than it is offered, in the last 10 of 20 seconds.
static void reject(double offered) {
  dmc::ClientInfo info(0, 1, 1000);
  Rejecting queue([&](const uint32_t&) { return &info; }, dmc::AtLimit::Reject);
  dmc::ReqParams params;
  long accepted = 0;
  for (long number = 0; number < 20 * 1000 * offered; number++) {
    double now = START + number / (1000 * offered);
    bool done = queue.add_request_time(Request{0}, 0, params, now) == 0;
    accepted += done && now >= START + 10;
    while (queue.pull_request(now).is_retn()) {}
  }
  printf("reject offered=%g %.4f\n", offered, accepted / 10000.0);
}

// The processor time of the push queue's thread in 5 s in which one client is at its limit of 40 a second.
static void spin() {
  dmc::ClientInfo info(0, 1, 40);
  std::atomic<int> handled{0};
  Push queue([&](const uint32_t&) { return &info; }, [] { return true; },
             [&](const uint32_t&, std::unique_ptr<Request>, dmc::PhaseType, uint64_t) { handled++; });
  dmc::ReqParams params;
  int queued = 0, completed = 0;
  double before = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
  for (int tick = 0; tick < 500; tick++) {
    for (; queued - completed < 8; queued++) queue.add_request(Request{0}, 0, params);
    timespec nap{0, 10000000};
    nanosleep(&nap, nullptr);
    for (; completed < handled; completed++) queue.request_completed();
  }
  double after = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
  printf("spin handled=%d %.3f\n", handled.load(), (after - before) / 5);
}

int main(int count, char** words) {
  if (count > 1 && !strcmp(words[1], "failures")) {
    for (double weight : {1.0, 100.0, 1000.0})
      for (double span : {0.1, 1.0, 10.0, 100.0}) pause(weight, span);
    for (double offered : {0.9, 1.0, 1.05, 2.0}) reject(offered);
    spin();
    return 0;
  }
  bool is_limited = count > 1 && !strcmp(words[1], "limited");
  for (uint32_t clients : {10u, 1000u, 10000u}) turns(clients, is_limited, 200000);
  for (uint32_t clients : {10u, 1000u, 10000u}) mature(clients), newcomer(clients);
}
