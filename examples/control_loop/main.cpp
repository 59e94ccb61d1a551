// A control loop of 1 kHz: an exported Panda draws circles with its hand, on an arm that is simulated here.
//
//     ik-service export panda --link panda_hand -o panda_c
//     cmake -S examples/control_loop -B build -DPANDA_EXPORT=$PWD/panda_c && cmake --build build
//     build/control_loop 10    # seconds; 'chrt -f 80' before it where the machine should do nothing else
#include "panda_ik.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

namespace {

using Joints = std::array<double, PANDA_COORDINATES>;
using Pose = std::array<double, 7>;  // position and quaternion x, y, z, w

constexpr std::int64_t period_ns = 1000000;
constexpr std::int64_t budget_ns = 300000;  // of a tick's period, for the controller
constexpr double dt = 1e-9 * period_ns;
constexpr double largest_error = 1e-3;  // of the hand, for the run to count as good [m]

// The maker's limits [rad/s^2].
constexpr Joints acceleration = {15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0};

// Joints with a servo each: a spring and a damper that pull them to their commands.
class SimulatedArm {
public:
    explicit SimulatedArm(const Joints &joint_q) : joint_q_(joint_q), joint_qd_{} {}

    void move(const panda_tick_result &command) {
        for (int step = 0; step < steps; ++step) {
            for (std::size_t k = 0; k < joint_q_.size(); ++k) {
                const double pull = frequency * frequency * (command.joint_q[k] - joint_q_[k]);
                joint_qd_[k] += dt / steps * (pull + 2.0 * frequency * (command.joint_qd[k] - joint_qd_[k]));
                joint_q_[k] += dt / steps * joint_qd_[k];
            }
        }
    }

    double distance(const panda_tick_result &command) const {
        double largest = 0.0;
        for (std::size_t k = 0; k < joint_q_.size(); ++k)
            largest = std::max(largest, std::fabs(command.joint_q[k] - joint_q_[k]));
        return largest;
    }

private:
    static constexpr int steps = 10;
    static constexpr double frequency = 200.0;  // [rad/s]
    Joints joint_q_, joint_qd_;
};

// A pose on the circle, which is begun without a jump of speed.
Pose pose_at(double time) {
    constexpr double radius = 0.1, speed = 1.5, soft = 0.5;  // [m], [rad/s], [s]
    const double begun = std::min(time / soft, 1.0);
    const double angle = speed * (time < soft ? soft * begun * begun * begun * (1.0 - 0.5 * begun) : time - 0.5 * soft);
    return {0.4 + radius * std::cos(angle), radius * std::sin(angle), 0.4, 1.0, 0.0, 0.0, 0.0};
}

// A configuration whose hand is at a pose; stops the program where there is none.
Joints solved(const Pose &pose) {
    std::vector<unsigned char> workspace(panda_workspace_size(1));
    std::array<float, PANDA_COORDINATES> joint_q;
    std::uint8_t success = 0;
    panda_problems problems = {};
    problems.count = 1;
    problems.positions = pose.data();
    problems.orientations_xyzw = pose.data() + 3;
    panda_results results = {};
    results.joint_q = joint_q.data();
    results.success = &success;
    const std::int32_t code = panda_solve(&problems, nullptr, &results, workspace.data(), workspace.size());
    if (code != PANDA_OK || !success) {
        std::fprintf(stderr, "no configuration for the first pose: code %d\n", static_cast<int>(code));
        std::exit(2);
    }
    Joints wide;
    std::copy(joint_q.begin(), joint_q.end(), wide.begin());
    return wide;
}

panda_controller controller_at(const Joints &joint_q) {
    panda_controller controller;
    panda_tick_settings settings = panda_tick_defaults;
    std::copy(acceleration.begin(), acceleration.end(), settings.acceleration);
    if (panda_controller_init(&controller, &settings) != PANDA_OK ||
        panda_controller_reset(&controller, joint_q.data(), nullptr) != PANDA_OK) {
        std::fprintf(stderr, "the controller does not take its settings\n");
        std::exit(2);
    }
    return controller;
}

std::int64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

void sleep_until(std::int64_t time_ns) {
    const timespec until = {static_cast<time_t>(time_ns / 1000000000), static_cast<long>(time_ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
    }
}

// What the loop has seen.
struct Record {
    std::vector<double> tick_us;  // room for it is made before the loop
    double target_error = 0.0, lag = 0.0;
    int overruns = 0;

    double percentile(double share) const { return tick_us[static_cast<std::size_t>(share * (tick_us.size() - 1))]; }
};

Record run(int ticks) {
    const Joints start = solved(pose_at(0.0));
    panda_controller controller = controller_at(start);
    SimulatedArm arm(start);
    Record record;
    record.tick_us.reserve(ticks);
    panda_tick_input input = {};
    panda_tick_result result;
    input.dt = dt;
    {
        panda_controller warm = controller;  // the first tick of the loop finds code and data in the caches
        panda_tick(&warm, &input, &result);
    }
    std::int64_t period_begins = now_ns() + period_ns;
    for (int tick = 0; tick < ticks; ++tick) {
        sleep_until(period_begins);
        const Pose target = pose_at((tick + 1) * dt);
        input.targets = target.data();
        const std::int64_t begun = now_ns();
        input.deadline_ns = begun + budget_ns;
        // Without joint_q it goes on from its last command: the servos lag behind that, and would hold it back.
        if (panda_tick(&controller, &input, &result) != PANDA_OK) std::exit(2);
        record.tick_us.push_back(1e-3 * static_cast<double>(now_ns() - begun));
        arm.move(result);
        record.target_error = std::max(record.target_error, result.position_error[0]);
        record.lag = std::max(record.lag, arm.distance(result));
        period_begins += period_ns;
        if (now_ns() >= period_begins) {  // go on from here, instead of hurrying after what is lost
            ++record.overruns;
            period_begins = now_ns() + period_ns;
        }
    }
    std::sort(record.tick_us.begin(), record.tick_us.end());
    return record;
}

}  // namespace

int main(int argc, char **argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 10.0;
    const int ticks = std::max(static_cast<int>(seconds / dt + 0.5), 1);
    const Record record = run(ticks);
    std::printf("%d ticks: median %.1f us, 99th percentile %.1f us, 99.9th %.1f us, longest %.1f us\n", ticks,
        record.percentile(0.5), record.percentile(0.99), record.percentile(0.999), record.tick_us.back());
    std::printf("the command was %.4f mm from the target at most, the arm %.2f mrad from the command\n",
        1e3 * record.target_error, 1e3 * record.lag);
    std::printf("overruns: %d\n", record.overruns);
    return record.target_error <= largest_error ? 0 : 1;
}
