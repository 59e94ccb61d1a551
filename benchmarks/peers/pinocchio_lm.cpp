// Pinocchio's kinematics under a Levenberg-Marquardt loop with random restarts: float64, one thread, fixed base.
//
// pinocchio_lm ROBOT.urdf TARGETS ANSWERS SEEDS ITERATIONS POSITION_TOLERANCE ORIENTATION_TOLERANCE REPEATS SCENES
//              LINK...
//
// TARGETS: float64 [targets, links, 7], position [m] and quaternion xyzw of every link in the world frame.
// SCENES: "-", or a file that says what answers are checked against, by coal, and rejected if they touch. A line each:
//   "joint NAME value" for what stands still, "sphere LINK x y z r" and "pair LINK LINK", and for every target "scene"
//   and its objects, with poses x y z qx qy qz qw:
//   "ball r POSE", "cylinder r length POSE", "box x y z POSE".
// ANSWERS: float64 angles or lengths [targets, joints], solved [targets], CPU time [s] [repeats, targets].
// The joints that move a link are the unknowns, all in one system; their names are printed, one per line.

#include <coal/collision.h>
#include <coal/shape/geometric_shapes.h>

#include <pinocchio/algorithm/frames.hpp>
#include <pinocchio/algorithm/jacobian.hpp>
#include <pinocchio/algorithm/joint-configuration.hpp>
#include <pinocchio/algorithm/model.hpp>
#include <pinocchio/multibody.hpp>
#include <pinocchio/parsers/urdf.hpp>
#include <pinocchio/spatial.hpp>

#include <Eigen/Cholesky>

#include <ctime>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::Vector3d;
using Eigen::VectorXd;
using pinocchio::JointIndex;

constexpr int kTargetSize = 7;          // position, quaternion
constexpr double kDamping = 0.1;        // times the cost: at the start of an attempt, and the least
constexpr double kDampingMax = 1e4;     // times the cost: an attempt that needs more is stuck
constexpr double kDampingFloor = 1e-9;  // keeps the factorisation away from zero pivots
constexpr double kProgress = 0.9;       // a step that leaves more of the cost than this is slow
constexpr int kSlowMax = 3;             // so many slow steps in a row end an attempt
constexpr Index kSmall = 12;            // up to so many DOFs Eigen's blocked products cost more than they save

struct Settings {
  int seeds, iterations;
  double position_tolerance, orientation_tolerance;
};

// The part of a robot that moves the links, and the links.
struct Robot {
  pinocchio::Model model;
  VectorXd lower, upper;                // of every DOF, infinite where there is no limit
  std::vector<JointIndex> joint_of_dof;
  std::vector<JointIndex> link_joint;
  std::vector<pinocchio::SE3> T_joint_link;
  std::vector<std::vector<int>> link_dofs;  // the DOFs that move each link

  Robot(const std::string& urdf, const std::vector<std::string>& links, const std::map<std::string, double>& held) {
    pinocchio::Model full;
    pinocchio::urdf::buildModel(urdf, full);
    std::set<JointIndex> moving;
    for (const auto& link : links) {
      const auto& supports = full.supports[full.frames[frame(full, link)].parentJoint];
      moving.insert(supports.begin(), supports.end());
    }
    std::vector<JointIndex> still;
    for (JointIndex joint = 1; joint < JointIndex(full.njoints); ++joint)
      if (!moving.count(joint)) still.push_back(joint);
    VectorXd reference = pinocchio::neutral(full);
    for (const auto& [name, value] : held) {
      const JointIndex joint = full.getJointId(name);
      if (joint >= JointIndex(full.njoints) || full.nqs[joint] != 1) throw std::runtime_error("cannot hold joint " + name);
      reference[full.idx_qs[joint]] = value;
    }
    model = pinocchio::buildReducedModel(full, still, reference);
    const double infinite = std::numeric_limits<double>::infinity();
    lower.setConstant(model.nv, -infinite);
    upper.setConstant(model.nv, infinite);
    joint_of_dof.resize(model.nv);
    for (JointIndex joint = 1; joint < JointIndex(model.njoints); ++joint) {
      if (model.nvs[joint] != 1) throw std::runtime_error("joint " + model.names[joint] + " has several DOFs");
      const int dof = model.idx_vs[joint];
      joint_of_dof[dof] = joint;
      if (model.nqs[joint] == 1) {
        lower[dof] = model.lowerPositionLimit[model.idx_qs[joint]];
        upper[dof] = model.upperPositionLimit[model.idx_qs[joint]];
      }
    }
    for (const auto& link : links) {
      const auto& at = model.frames[frame(model, link)];
      link_joint.push_back(at.parentJoint);
      T_joint_link.push_back(at.placement);
      link_dofs.emplace_back();
      for (JointIndex joint : model.supports[at.parentJoint])
        if (joint > 0) link_dofs.back().push_back(model.idx_vs[joint]);
    }
  }

  static pinocchio::FrameIndex frame(const pinocchio::Model& model, const std::string& link) {
    if (!model.existBodyName(link)) throw std::runtime_error("there is no link " + link);
    return model.getFrameId(link, pinocchio::BODY); // a joint may have the same name
  }

  // Joint values as Pinocchio wants them: a joint without limits is a cosine and a sine there.
  void configuration(const VectorXd& x, VectorXd& q) const {
    for (int dof = 0; dof < model.nv; ++dof) {
      const int at = model.idx_qs[joint_of_dof[dof]];
      if (model.nqs[joint_of_dof[dof]] == 1) {
        q[at] = x[dof];
      } else {
        q[at] = std::cos(x[dof]);
        q[at + 1] = std::sin(x[dof]);
      }
    }
  }
};

// Joints that stand still, by the file of scenes.
std::map<std::string, double> held_joints(const std::string& path) {
  std::map<std::string, double> held;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind, name;
    double value;
    if (words >> kind >> name >> value && kind == "joint") held[name] = value;
  }
  return held;
}

// What answers are checked against for contact.
class Scenes {
 public:
  Scenes(const std::string& path, const Robot& robot) : model_(robot.model) {
    if (path == "-") return;
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path);
    for (std::string line; std::getline(file, line);) read(line);
  }

  // Whether nothing touches in the scene of a target; the joints of `data` have their places.
  bool is_free(size_t target, pinocchio::Data& data) {
    if (balls_.empty()) return true;
    pinocchio::updateFramePlacements(model_, data);
    for (Ball& ball : balls_) {
      ball.object->setTranslation(data.oMf[ball.frame].act(ball.center));
      ball.object->computeAABB();
    }
    for (const auto& [one, other] : pairs_)
      for (size_t a : of_link_[one])
        for (size_t b : of_link_[other])
          if (touch(*balls_[a].object, *balls_[b].object)) return false;
    for (const auto& object : scenes_[target])
      for (const Ball& ball : balls_)
        if (ball.moves && touch(*ball.object, *object)) return false;
    return true;
  }

 private:
  struct Ball {
    pinocchio::FrameIndex frame;
    Vector3d center;
    bool moves;
    std::unique_ptr<coal::CollisionObject> object;
  };

  static bool touch(const coal::CollisionObject& one, const coal::CollisionObject& other) {
    if (!one.getAABB().overlap(other.getAABB())) return false;
    coal::CollisionRequest request;
    coal::CollisionResult result;
    return coal::collide(&one, &other, request, result) > 0;
  }

  void read(const std::string& line) {
    std::istringstream words(line);
    std::string kind, link, other;
    words >> kind;
    if (kind == "joint") {
      return;  // read before the robot was
    } else if (kind == "sphere") {
      double radius;
      Ball ball;
      words >> link >> ball.center[0] >> ball.center[1] >> ball.center[2] >> radius;
      ball.frame = Robot::frame(model_, link);
      ball.moves = model_.frames[ball.frame].parentJoint > 0;
      ball.object = std::make_unique<coal::CollisionObject>(std::make_shared<coal::Sphere>(radius));
      of_link_[link].push_back(balls_.size());
      balls_.push_back(std::move(ball));
    } else if (kind == "pair") {
      words >> link >> other;
      pairs_.emplace_back(link, other);
    } else if (kind == "scene") {
      scenes_.emplace_back();
    } else {
      scenes_.back().push_back(object(kind, words));
    }
    if (!words) throw std::runtime_error("cannot read the line " + line);
  }

  static std::unique_ptr<coal::CollisionObject> object(const std::string& kind, std::istream& words) {
    double a, b, c;
    std::shared_ptr<coal::CollisionGeometry> shape;
    if (kind == "ball" && words >> a) shape = std::make_shared<coal::Sphere>(a);
    if (kind == "cylinder" && words >> a >> b) shape = std::make_shared<coal::Cylinder>(a, b);
    if (kind == "box" && words >> a >> b >> c) shape = std::make_shared<coal::Box>(a, b, c);
    if (!shape) throw std::runtime_error("there are no objects of the kind " + kind);
    Vector3d place;
    Eigen::Quaterniond turn;
    words >> place[0] >> place[1] >> place[2] >> turn.x() >> turn.y() >> turn.z() >> turn.w();
    auto found = std::make_unique<coal::CollisionObject>(shape);
    found->setTransform(turn.normalized().toRotationMatrix(), place);
    found->computeAABB();
    return found;
  }

  const pinocchio::Model& model_;
  std::vector<Ball> balls_;
  std::map<std::string, std::vector<size_t>> of_link_;
  std::vector<std::pair<std::string, std::string>> pairs_;
  std::vector<std::vector<std::unique_ptr<coal::CollisionObject>>> scenes_;
};

// What is known at one configuration.
struct Point {
  VectorXd x, error;
  MatrixXd jacobian;
  double cost = 0.0;
  bool met = false;

  Point(Index dofs, Index rows)
      : x(VectorXd::Zero(dofs)), error(VectorXd::Zero(rows)), jacobian(MatrixXd::Zero(rows, dofs)) {}

  void swap(Point& other) {
    x.swap(other.x);
    error.swap(other.error);
    jacobian.swap(other.jacobian);
    std::swap(cost, other.cost);
    std::swap(met, other.met);
  }
};

class Solver {
 public:
  Solver(const Robot& robot, Scenes& scenes, const Settings& settings)
      : robot_(robot), scenes_(scenes), settings_(settings), data_(robot.model), q_(pinocchio::neutral(robot.model)),
        targets_(robot.link_joint.size()), point_(robot.model.nv, 6 * targets_.size()), trial_(point_),
        normal_(robot.model.nv, robot.model.nv), damped_(normal_), gradient_(robot.model.nv), step_(robot.model.nv),
        best_(robot.model.nv), factor_(robot.model.nv) {}

  void restart_generator() { generator_.seed(20240607); }

  // Sets targets from 7 numbers per link.
  void aim(const double* numbers) {
    for (size_t link = 0; link < targets_.size(); ++link, numbers += kTargetSize) {
      targets_[link].translation() = Eigen::Map<const Vector3d>(numbers);
      targets_[link].rotation() = Eigen::Quaterniond(numbers + 3).normalized().toRotationMatrix();
    }
  }

  // Tries seeds until one meets the tolerances and touches nothing; leaves the best configuration in `best`.
  bool solve(size_t target) {
    double least = std::numeric_limits<double>::infinity();
    for (int seed = 0; seed < settings_.seeds; ++seed) {
      draw(seed);
      descend();
      const bool accepted = point_.met && scenes_.is_free(target, data_);
      if (accepted || point_.cost < least) {
        least = point_.cost;
        best_ = point_.x;
      }
      if (accepted) return true;
    }
    return false;
  }

  const VectorXd& best() const { return best_; }

 private:
  // The first seed is the middle of the ranges, all others are uniform.
  void draw(int seed) {
    std::uniform_real_distribution<double> share(0.0, 1.0);
    for (Index dof = 0; dof < point_.x.size(); ++dof) {
      const bool limited = std::isfinite(robot_.lower[dof]) && std::isfinite(robot_.upper[dof]);
      const double low = limited ? robot_.lower[dof] : -M_PI, high = limited ? robot_.upper[dof] : M_PI;
      point_.x[dof] = low + (seed == 0 ? 0.5 : share(generator_)) * (high - low);
    }
  }

  void descend() {
    evaluate(point_);
    double damping = kDamping;
    int slow = 0;
    bool fresh = true;
    for (int iteration = 0; iteration < settings_.iterations && !point_.met; ++iteration) {
      if (fresh) linearise();
      take_step(damping);
      evaluate(trial_);
      fresh = trial_.cost < point_.cost;
      if (fresh) {
        slow = trial_.cost > kProgress * point_.cost ? slow + 1 : 0;
        damping = std::max(0.2 * damping, kDamping);
        point_.swap(trial_);
      } else {
        damping *= 5.0;
      }
      if (slow >= kSlowMax || damping > kDampingMax) return;
    }
  }

  // Normal equations at the point; joints that a limit holds are taken out.
  void linearise() {
    const MatrixXd& J = point_.jacobian;
    if (J.cols() <= kSmall)
      normal_.noalias() = J.transpose().lazyProduct(J);
    else
      normal_.triangularView<Eigen::Lower>() = J.transpose() * J;
    gradient_.noalias() = J.transpose() * point_.error;
    for (Index dof = 0; dof < gradient_.size(); ++dof) {
      const bool held = (point_.x[dof] <= robot_.lower[dof] && gradient_[dof] < 0.0) ||
                        (point_.x[dof] >= robot_.upper[dof] && gradient_[dof] > 0.0);
      if (!held) continue;
      normal_.row(dof).setZero();
      normal_.col(dof).setZero();
      normal_(dof, dof) = 1.0;
      gradient_[dof] = 0.0;
    }
  }

  // Damping in proportion to the cost: careful far away, Gauss-Newton near the target.
  void take_step(double damping) {
    damped_ = normal_;
    damped_.diagonal().array() += damping * point_.cost + kDampingFloor;
    factor_.compute(damped_);
    step_ = gradient_;
    factor_.solveInPlace(step_);
    trial_.x = (point_.x + step_).cwiseMax(robot_.lower).cwiseMin(robot_.upper);
  }

  // Errors, Jacobian, cost and whether all links meet the tolerances, at `point.x`.
  void evaluate(Point& point) {
    robot_.configuration(point.x, q_);
    pinocchio::computeJointJacobians(robot_.model, data_, q_);
    point.met = true;
    for (size_t link = 0; link < targets_.size(); ++link) {
      const pinocchio::SE3 pose = data_.oMi[robot_.link_joint[link]].act(robot_.T_joint_link[link]);
      const Vector3d distance = targets_[link].translation() - pose.translation();
      const Vector3d turn = pinocchio::log3((targets_[link].rotation() * pose.rotation().transpose()).eval());
      const Index row = 6 * Index(link);
      point.error.segment<3>(row) = distance;
      point.error.segment<3>(row + 3) = turn;
      for (int dof : robot_.link_dofs[link]) {
        const auto column = data_.J.col(dof);  // twist at the world origin, linear first
        point.jacobian.block<3, 1>(row, dof) = column.head<3>() + column.tail<3>().cross(pose.translation());
        point.jacobian.block<3, 1>(row + 3, dof) = column.tail<3>();
      }
      point.met = point.met && distance.norm() <= settings_.position_tolerance &&
                  turn.norm() <= settings_.orientation_tolerance;
    }
    point.cost = point.error.squaredNorm();
  }

  const Robot& robot_;
  Scenes& scenes_;
  Settings settings_;
  pinocchio::Data data_;
  VectorXd q_;
  std::vector<pinocchio::SE3> targets_;
  Point point_, trial_;
  MatrixXd normal_, damped_;
  VectorXd gradient_, step_, best_;
  Eigen::LLT<MatrixXd> factor_;
  std::mt19937_64 generator_;
};

double cpu_time() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

std::vector<double> read_numbers(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<double> numbers(size_t(file.tellg()) / sizeof(double));
  file.seekg(0).read(reinterpret_cast<char*>(numbers.data()), std::streamsize(numbers.size() * sizeof(double)));
  return numbers;
}

int main(int count, char** words) try {
  if (count < 11) throw std::runtime_error("too few arguments");
  const Settings settings{std::stoi(words[4]), std::stoi(words[5]), std::stod(words[6]), std::stod(words[7])};
  const Robot robot(words[1], {words + 10, words + count}, held_joints(words[9]));
  const std::vector<double> targets = read_numbers(words[2]);
  const size_t size = kTargetSize * robot.link_joint.size(), n = targets.size() / size, joints = robot.model.nv;
  const size_t repeats = std::stoul(words[8]);
  std::vector<double> answers(n * joints), solved(n), times(repeats * n);
  Scenes scenes(words[9], robot);
  Solver solver(robot, scenes, settings);
  for (size_t repeat = 0; repeat < repeats; ++repeat) {
    solver.restart_generator();
    for (size_t target = 0; target < n; ++target) {
      const double start = cpu_time();
      solver.aim(&targets[target * size]);
      solved[target] = solver.solve(target);
      times[repeat * n + target] = cpu_time() - start;
      VectorXd::Map(&answers[target * joints], Index(joints)) = solver.best();
    }
  }
  std::ofstream file(words[3], std::ios::binary);
  for (const auto* numbers : {&answers, &solved, &times})
    file.write(reinterpret_cast<const char*>(numbers->data()), std::streamsize(numbers->size() * sizeof(double)));
  for (JointIndex joint : robot.joint_of_dof) std::cout << robot.model.names[joint] << '\n';
  return file ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 2;
}
