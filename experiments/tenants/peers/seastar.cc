// What does seastar's fair_queue cost for a request, what does its dearest single call, and how long may a class that returns from
// a pause starve another? The load is as in dmclock.cc. It has no reservations, no limits and no clock of its own.

#include <seastar/core/fair_queue.hh>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>

using seastar::fair_queue;
using seastar::fair_queue_entry;

constexpr int BACKLOG = 4;
// A request of a thousand a second, and what a class that returns may be ahead: 5 ms, the default of its I/O queue.
constexpr uint64_t COST = 1 << 20;
constexpr uint64_t FORGIVEN = 5 * COST;

struct Request : fair_queue_entry {
  uint32_t client;
  explicit Request(uint32_t client) : fair_queue_entry(COST), client(client) {}
};

static double thread_nanos() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

static unsigned weight(uint32_t client) {
  return (client * 0x9E3779B9u >> 28) + 1;
}

struct Queue {
  fair_queue queue{fair_queue::config{"measured", FORGIVEN}};
  uint32_t count;

  explicit Queue(uint32_t count) : count(count) {
    for (uint32_t client = 0; client < count; client++) queue.register_priority_class(client, weight(client));
  }

  ~Queue() {
    while (queue.top()) queue.pop_front();
    for (uint32_t client = 0; client < count; client++) queue.unregister_priority_class(client);
  }

  Request* pull() {
    auto* first = static_cast<Request*>(queue.top());
    if (first) queue.pop_front();
    return first;
  }
};

static void turns(uint32_t count, long turns) {
  std::deque<Request> requests;
  Queue queue(count);
  for (int deep = 0; deep < BACKLOG; deep++)
    for (uint32_t client = 0; client < count; client++) {
      requests.emplace_back(client);
      queue.queue.queue(client, requests.back());
    }
  auto run = [&](long turns) {
    for (long turn = 0; turn < turns; turn++) {
      Request* request = queue.pull();
      queue.queue.queue(request->client, *request);
    }
  };
  run(std::max(turns / 4, 2l * count));
  double start = thread_nanos();
  run(turns);
  printf("turn %u %.1f\n", count, (thread_nanos() - start) / turns);
}

// A class that asks after a pause, and the registration of a new one, which the I/O queue does at the first request of a class.
static void newcomer(uint32_t count) {
  std::deque<Request> requests;
  Queue queue(count + 64);
  for (uint32_t client = 0; client < count; client++) {
    requests.emplace_back(client);
    queue.queue.queue(client, requests.back());
  }
  for (uint32_t newcomer = 0; newcomer < 64; newcomer++) requests.emplace_back(count + newcomer);
  double start = thread_nanos();
  for (uint32_t newcomer = 0; newcomer < 64; newcomer++) queue.queue.queue(count + newcomer, requests[count + newcomer]);
  printf("newcomer %u %.1f\n", count, (thread_nanos() - start) / 64);
}

static void pause(uint32_t shares, double span) {
  std::deque<Request> requests[2];
  fair_queue queue(fair_queue::config{"paused", FORGIVEN});
  for (uint32_t client = 0; client < 2; client++) {
    queue.register_priority_class(client, shares);
    for (int deep = 0; deep < 8; deep++) requests[client].emplace_back(client);
  }
  std::vector<Request*> idle[2];
  for (uint32_t client = 0; client < 2; client++)
    for (auto& request : requests[client]) idle[client].push_back(&request);
  double last = 0, longest = 0;
  for (long step = 0; step < (long)((1 + span + 20) * 1000); step++) {
    bool is_away = step >= 1000 && step < (1 + span) * 1000;
    for (uint32_t client = 0; client < 2; client++)
      for (; !idle[client].empty() && !(client == 1 && is_away); idle[client].pop_back())
        queue.queue(client, *idle[client].back());
    auto* first = static_cast<Request*>(queue.top());
    queue.pop_front();
    idle[first->client].push_back(first);
    if (first->client == 0) {
      if (step >= (1 + span) * 1000) longest = std::max(longest, (step - last) / 1000);
      last = step;
    }
  }
  while (queue.top()) queue.pop_front();
  for (uint32_t client = 0; client < 2; client++) queue.unregister_priority_class(client);
  printf("pause weight=%u,seconds=%g %.3f\n", shares, span, longest);
}

int main(int count, char** words) {
  if (count > 1 && !strcmp(words[1], "failures")) {
    for (uint32_t shares : {1u, 100u, 1000u})
      for (double span : {0.1, 1.0, 10.0, 100.0}) pause(shares, span);
    return 0;
  }
  for (uint32_t clients : {10u, 1000u, 10000u}) turns(clients, 500000);
  for (uint32_t clients : {10u, 1000u, 10000u}) newcomer(clients);
}
