// The document step of topics.cu, emulated, against the same rules in double precision: the topics of tokens, masses
// and what goes into the objective. Exits with 1 where they differ.
#include "emulate.h"
// (The kernels need what is above.)
#include "../topics.cu"

#include <stdio.h>

#include <map>
#include <random>
#include <set>
#include <string>

static double psi(double x) {
    double shift = 0;
    for (; x < 10; x++) shift -= 1 / x;
    const double z = 1 / (x * x);
    return shift + log(x) - 0.5 / x - z * (1. / 12 - z * (1. / 120 - z * (1. / 252 - z * (1. / 240 - z / 132))));
}

struct Options {
    int sparsity, iterations, max_active, restarts;
    double tolerance, active_floor, restart_floor;
};

struct Table {
    int vocab, topics, width, start_width;
    std::vector<float> table, scale, alpha, start_value;
    std::vector<double> ln_gamma;
    std::vector<unsigned> start_topic;
};

struct Solved {
    std::map<std::pair<int, int>, double> mass;
    double entropy, alloc, evidence;
    int active, proposed, accepted;
    bool solved, close;
};

// The rules of crates/lsparse/src/topics/local in double precision. `close` says that a decision hung on rounding.
static Solved reference(const Table &t, const Options &o, std::vector<unsigned> words, std::vector<float> counts,
                        std::vector<std::pair<int, double>> warm) {
    Solved out{};
    out.solved = true;
    const int U = words.size();
    std::vector<double> mass(t.topics), n;
    std::vector<int> k;
    auto near = [&](double a, double b) {
        if (fabs(a - b) <= 1e-4 * fmax(fabs(a), fabs(b))) out.close = true;
    };
    if (!warm.empty())
        for (auto &[topic, number] : warm) k.push_back(topic), n.push_back(number);
    else {
        double most = 0;
        for (int u = 0; u < U; u++)
            for (int j = 0; j < t.start_width; j++)
                mass[t.start_topic[words[u] * t.start_width + j]] +=
                    counts[u] * (double)t.start_value[words[u] * t.start_width + j];
        for (double m : mass) most = fmax(most, m);
        double floor = fmin(o.active_floor, 0.5 * most);
        std::vector<double> sorted = mass;
        std::sort(sorted.rbegin(), sorted.rend());
        if (t.topics > o.max_active) floor = fmax(floor, sorted[o.max_active]);
        for (int i = 0; i < t.topics; i++) {
            if (mass[i] > 0 && mass[i] != floor) near(mass[i], floor);
            if (mass[i] > floor) k.push_back(i), n.push_back(mass[i]);
        }
    }
    if (k.empty()) {
        out.solved = false;
        return out;
    }
    std::vector<int> tried;
    std::vector<double> prior, norm(U), next;
    auto w = [&](int u, int i) { return (double)t.table[words[u] * t.width + k[i]]; };
    auto update = [&] {
        prior.assign(k.size(), 0);
        next.assign(k.size(), 0);
        for (size_t i = 0; i < k.size(); i++) {
            // What single precision cannot hold is nothing.
            const double spread = exp(psi(n[i] + t.alpha[k[i]]));
            prior[i] = spread * t.scale[k[i]] < 1e-45 ? 0 : spread * t.scale[k[i]];
        }
        for (int u = 0; u < U; u++) {
            norm[u] = 0;
            for (size_t i = 0; i < k.size(); i++) norm[u] += prior[i] * w(u, i);
            for (size_t i = 0; i < k.size(); i++)
                if (norm[u] > 0) next[i] += prior[i] * counts[u] / norm[u] * w(u, i);
        }
    };
    auto drop = [&](int at) {
        k.erase(k.begin() + at);
        n.erase(n.begin() + at);
    };
    for (int it = 1;; it++) {
        update();
        bool rest = it >= o.iterations;
        if (!rest && it % 5 == 0) {
            double most = 0;
            for (size_t i = 0; i < k.size(); i++) most = fmax(most, fabs(next[i] - n[i]));
            rest = most < o.tolerance;
            near(most, o.tolerance);
        }
        n = next;
        if (rest) break;
        if (o.active_floor <= 0) continue;
        double most = *std::max_element(n.begin(), n.end()), floor = fmin(o.active_floor, 0.5 * most);
        for (int i = k.size() - 1; i >= 0; i--) {
            near(n[i], floor);
            if (!(n[i] > floor)) drop(i);
        }
    }
    auto bound = [&] {
        double value = 0;
        for (size_t i = 0; i < k.size(); i++)
            value += lgamma(n[i] + t.alpha[k[i]]) - lgamma(t.alpha[k[i]]) -
                     (prior[i] > 0 ? n[i] * log(prior[i] / t.scale[k[i]]) : 0);
        for (int u = 0; u < U; u++) value += counts[u] * log(norm[u]);
        return value;
    };
    if (o.restarts > 0 && k.size() >= 2) {
        update();
        double best = bound();
        n = next;
        for (int p = 0; p < o.restarts; p++) {
            int target = -1;
            for (size_t i = 0; i < k.size(); i++) {
                if (!((float)n[i] > o.restart_floor) || std::find(tried.begin(), tried.end(), k[i]) != tried.end())
                    continue;
                if (target >= 0) near(n[i], n[target]);
                if (target < 0 || n[i] < n[target]) target = i;
            }
            if (target < 0 || k.size() < 2) break;
            tried.push_back(k[target]);
            out.proposed++;
            auto k0 = k;
            auto n0 = n;
            const double gone = n[target];
            drop(target);
            double rest = 0;
            for (double v : n) rest += v;
            if (rest > 0)
                for (double &v : n) v *= (rest + gone) / rest;
            for (int i = 0; i < 2; i++) update(), n = next;
            update();
            const double value = bound();
            if (fabs(value - best) < 1e-3) out.close = true;
            if (value > best) best = value, out.accepted++, n = next;
            else k = k0, n = n0;
        }
        update();
        n = next;
    }
    out.active = k.size();
    const int kept = std::min<int>(o.sparsity, k.size());
    std::vector<double> final(k.size());
    double logs = 0, drift = 0;
    for (int u = 0; u < U; u++) {
        std::vector<int> by(k.size());
        for (size_t i = 0; i < k.size(); i++) by[i] = i;
        std::stable_sort(by.begin(), by.end(), [&](int a, int b) { return prior[a] * w(u, a) > prior[b] * w(u, b); });
        double sum = 0;
        if (kept < (int)k.size()) near(prior[by[kept - 1]] * w(u, by[kept - 1]), prior[by[kept]] * w(u, by[kept]));
        for (int j = 0; j < kept; j++) sum += prior[by[j]] * w(u, by[j]);
        for (int j = 0; j < kept; j++) {
            const double r = sum > 0 ? prior[by[j]] * w(u, by[j]) / sum : 1. / kept;
            if (r > 0) out.entropy -= counts[u] * r * log(r);
            final[by[j]] += counts[u] * r;
            out.mass[{words[u], k[by[j]]}] += counts[u] * r;
        }
        logs += counts[u] * log(sum);
    }
    double tokens = 0, alpha_sum = 0;
    for (float c : counts) tokens += c;
    for (float a : t.alpha) alpha_sum += a;
    out.alloc = lgamma(alpha_sum) - lgamma(tokens + alpha_sum);
    for (size_t i = 0; i < k.size(); i++) {
        out.alloc += lgamma(final[i] + t.alpha[k[i]]) - lgamma(t.alpha[k[i]]);
        if (final[i] > 0) drift += final[i] * log(prior[i] / t.scale[k[i]]);
    }
    out.evidence = out.alloc - drift + logs;
    return out;
}

static Table make_topics(std::mt19937 &rng, int vocab, int topics, int start_width) {
    Table t{vocab, topics, (topics + 15) / 16 * 16, start_width};
    std::gamma_distribution<float> entry(0.08f);
    std::uniform_real_distribution<float> one(0.5f, 1.5f);
    t.table.assign((size_t)vocab * t.width, 0);
    t.start_topic.assign(vocab * start_width, 0);
    t.start_value.assign(vocab * start_width, 0);
    for (int k = 0; k < topics; k++) {
        t.scale.push_back(one(rng) / vocab);
        t.alpha.push_back(0.5f / topics * one(rng));
        t.ln_gamma.push_back(lgamma(t.alpha[k]));
    }
    for (int v = 0; v < vocab; v++) {
        std::vector<std::pair<float, int>> by;
        for (int k = 0; k < topics; k++) {
            const float value = entry(rng) * 50 + 0.07f;
            t.table[(size_t)v * t.width + k] = value;
            by.push_back({value * t.scale[k], k});
        }
        std::sort(by.rbegin(), by.rend());
        float sum = 0;
        for (int j = 0; j < start_width; j++) sum += by[j].first;
        for (int j = 0; j < start_width; j++)
            t.start_topic[v * start_width + j] = by[j].second, t.start_value[v * start_width + j] = by[j].first / sum;
    }
    return t;
}

static int failures = 0, compared = 0, close_ones = 0, gone_on = 0;

typedef void (*Kernel)(Step);

// `first` and `rest` have as many threads as given; `wide` is the second for many topics.
static void check(const char *name, int threads, Kernel first_kernel, int rest_threads, Kernel rest_kernel, Kernel wide_kernel, bool far,
                  int vocab, int topics, Options o, std::vector<int> lengths, bool warm) {
    std::mt19937 rng(lengths[0] * 31 + topics + o.sparsity);
    Table t = make_topics(rng, vocab, topics, std::min(o.sparsity, 8));
    std::vector<unsigned> first{0}, word, order, warm_first{0}, warm_topic;
    std::vector<float> count, tokens, warm_count;
    int most = 0;
    for (size_t d = 0; d < lengths.size(); d++) {
        // Words of a few topics.
        std::set<unsigned> chosen;
        std::vector<int> of{(int)(rng() % topics), (int)(rng() % topics), (int)(rng() % topics)};
        while ((int)chosen.size() < lengths[d]) {
            const unsigned v = rng() % vocab;
            if (t.table[(size_t)v * t.width + of[rng() % 3]] > 2 || rng() % 20 == 0) chosen.insert(v);
        }
        tokens.push_back(0);
        for (unsigned v : chosen) word.push_back(v), count.push_back(1 + rng() % 3), tokens.back() += count.back();
        first.push_back(word.size());
        most = std::max(most, lengths[d]);
        order.push_back(lengths.size() - 1 - d);
        if (warm && d % 2)
            for (int i = 0; i < 10; i++)
                warm_topic.push_back(i * (topics / 10)), warm_count.push_back(tokens.back() / 10);
        warm_first.push_back(warm_topic.size());
    }
    std::vector<u64> stats((size_t)vocab * topics);
    std::vector<Found> found(lengths.size());
    std::vector<unsigned> left_topic(lengths.size() * MOST_TOPICS);
    std::vector<float> left_count(lengths.size() * MOST_TOPICS), left_spread(lengths.size() * MOST_TOPICS);
    const size_t start = topics + 2 * std::min(topics, most * t.start_width),
                 block = std::max<size_t>(start, MOST_TOPICS * (most | 1));
    std::vector<float> room(far ? block * 2 : 0);
    Step s{};
    double alpha_sum = 0;
    for (float a : t.alpha) alpha_sum += a;
    s.first = first.data(), s.word = word.data(), s.count = count.data(), s.tokens = tokens.data(),
    s.order = order.data();
    s.table = t.table.data(), s.scale = t.scale.data(), s.alpha = t.alpha.data(), s.alpha_ln_gamma = t.ln_gamma.data();
    s.start_topic = t.start_topic.data(), s.start_value = t.start_value.data();
    if (warm) s.warm_first = warm_first.data(), s.warm_topic = warm_topic.data(), s.warm_count = warm_count.data();
    s.stats = stats.data(), s.found = found.data(), s.left_topic = left_topic.data();
    s.left_count = left_count.data(), s.left_spread = left_spread.data();
    s.far = room.data(), s.far_stride = block;
    s.alpha_sum_ln_gamma = lgamma(alpha_sum), s.alpha_sum = alpha_sum, s.unit = ldexp(1, 40);
    s.tolerance = o.tolerance, s.active_floor = o.active_floor, s.restart_floor = o.restart_floor;
    s.most_words = most, s.num_topics = topics, s.width = t.width, s.start_width = t.start_width;
    s.sparsity = o.sparsity, s.iterations = o.iterations, s.max_active = o.max_active, s.restarts = o.restarts;
    long proposed = 0, accepted = 0;
    for (size_t at = 0; at < lengths.size(); at++) {
        // One document at a time, so that its statistics can be told apart.
        const unsigned d = order[at];
        unsigned only[1] = {d};
        s.order = only, s.num_documents = 1;
        std::fill(stats.begin(), stats.end(), 0);
        dim3 blocks;
        emulated::launch(blocks, threads, (3 * most + (far ? 0 : block)) * 4, [&] { first_kernel(s); });
        // Many topics first: a document that comes down to fewer goes on with the next.
        for (unsigned topics : {64u, 32u, 16u}) {
            s.above = topics == 16 ? 0 : topics / 2, s.most_active = topics;
            gone_on += found[d].solved == GOES_ON;
            emulated::launch(blocks, rest_threads, (3 * most + (far ? 0 : topics * (most | 1))) * 4,
                             [&] { (topics > 16 ? wide_kernel : rest_kernel)(s); });
        }
        std::vector<unsigned> words(word.begin() + first[d], word.begin() + first[d + 1]);
        std::vector<float> counts(count.begin() + first[d], count.begin() + first[d + 1]);
        std::vector<std::pair<int, double>> from;
        for (unsigned i = warm_first[d]; i < warm_first[d + 1]; i++)
            from.push_back({(int)warm_topic[i], warm_count[i]});
        Solved want = reference(t, o, words, counts, from);
        const Found &have = found[d];
        proposed += want.proposed, accepted += want.accepted;
        if (want.close) {
            close_ones++;
            continue;
        }
        compared++;
        std::string wrong;
        if (have.solved != want.solved) wrong += " solved";
        if (want.solved) {
            if ((int)have.active != want.active || (int)have.proposed != want.proposed ||
                (int)have.accepted != want.accepted)
                wrong += " topics or restarts";
            if (fabs(have.entropy - want.entropy) > 1e-3 * (1 + fabs(want.entropy))) wrong += " entropy";
            if (fabs(have.alloc - want.alloc) > 1e-3 * (1 + fabs(want.alloc))) wrong += " alloc";
            if (fabs(have.evidence - want.evidence) > 1e-3 * (1 + fabs(want.evidence))) wrong += " evidence";
            size_t entries = 0;
            double worst = 0, of_counts = 0;
            for (u64 units : stats) entries += units != 0;
            for (auto &[at, m] : want.mass) {
                const u64 units = stats[(size_t)at.first * topics + at.second];
                worst = fmax(worst, fabs(units / ldexp(1, 40) - m));
                if (!units && m > 1e-9) wrong += " missing";
                if (!units) entries++;
            }
            if (entries != want.mass.size()) wrong += " entries";
            if (worst > 1e-3) wrong += " mass";
            for (int i = 0; i < want.active; i++) of_counts += left_count[d * MOST_TOPICS + i];
            if (fabs(of_counts - tokens[d]) > 1e-4 * tokens[d]) wrong += " counts";
            if (!wrong.empty())
                printf(
                    "   active %u %d, proposed %u %d, accepted %u %d, entropy %g %g, alloc %g %g, evidence %g %g, "
                    "worst mass %g, entries %zu %zu\n",
                    have.active, want.active, have.proposed, want.proposed, have.accepted, want.accepted, have.entropy,
                    want.entropy, have.alloc, want.alloc, have.evidence, want.evidence, worst, entries,
                    want.mass.size());
        }
        if (wrong.size() > 200) wrong.resize(200);
        if (!wrong.empty())
            failures++, printf("%s K %d L %d, document of %zu words:%s\n", name, topics, o.sparsity, words.size(),
                               wrong.c_str());
    }
    printf("%s, K %d, L %d, floor %g, restarts %d%s: %ld of %ld proposals accepted\n", name, topics, o.sparsity,
           o.active_floor, o.restarts, warm ? ", warm" : "", accepted, proposed);
}

int main() {
    const Options usual{8, 15, 64, 50, 0.05, 0.1, 0};
    check("32 threads", 32, first_32, 32, rest_32, wide_32, false, 600, 100, usual, {1, 2, 5, 9, 17, 31, 32, 33, 50, 64}, false);
    check("128 and 32 threads", 128, first_128, 32, rest_32, wide_32, false, 600, 100, usual, {65, 100, 128}, false);
    check("128 and 64 threads", 128, first_128, 64, rest_64, wide_64, false, 900, 200, usual, {130, 200, 256}, false);
    check("256 and 128 threads", 256, first_256, 128, rest_128, wide_128, false, 900, 60, usual, {270, 410}, false);
    check("512 and 128 threads", 512, first_512, 128, rest_128, wide_128, false, 1500, 60, usual, {415, 560}, false);
    check("512 and 256 threads", 512, first_512, 256, rest_256, wide_256, false, 1500, 60, usual, {570, 830}, false);
    check("512 and 512 threads", 512, first_512, 512, rest_512, wide_512, false, 1500, 60, usual, {600, 830}, false);
    check("far", 512, first_far, 512, rest_far, rest_far, true, 2000, 60, usual, {900, 20}, false);
    check("warm", 128, first_128, 32, rest_32, wide_32, false, 600, 100, usual, {40, 64, 65, 100}, true);
    check("one", 128, first_128, 32, rest_32, wide_32, false, 600, 100, {1, 15, 64, 50, 0.05, 0.1, 0}, {40, 64, 65, 100}, false);
    check("many kept", 128, first_128, 64, rest_64, wide_64, false, 600, 100, {20, 15, 64, 5, 0.05, 0.1, 0}, {40, 64, 65, 100},
          false);
    check("three kept, few active", 32, first_32, 32, rest_32, wide_32, false, 600, 100, {3, 7, 12, 0, 0.05, 0.1, 0},
          {10, 40, 64}, false);
    check("no restarts", 128, first_128, 64, rest_64, wide_64, false, 600, 100, {8, 15, 64, 0, 0.05, 0.1, 0},
          {1, 10, 40, 64, 100, 200}, false);
    check("no floor", 32, first_32, 32, rest_32, wide_32, false, 600, 40, {8, 15, 64, 50, 0.05, 0, 0.01}, {10, 40, 64, 100},
          false);
    check("to rest", 32, first_32, 32, rest_32, wide_32, false, 600, 50, {8, 200, 64, 50, 0.05, 0.1, 0}, {10, 40, 64, 100},
          false);
    printf("%d documents compared, %d where a decision hung on rounding, %d different; gone on with %d times\n", compared,
           close_ones, failures, gone_on);
    return failures > 0 || compared < 20 || gone_on < 5;
}
