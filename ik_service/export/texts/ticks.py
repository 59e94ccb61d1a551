"""Texts of the functions of an export that control: header and source."""

from string import Template

TICK_HEADER = Template("""\
#define ${PREFIX}_TICK_TARGETS $targets /* of a tick, in this order: $links */
#define ${PREFIX}_TICK_ROBOTS $robots /* that a controller takes through a tick together */
#define ${PREFIX}_ISLANDS $islands /* parts of a robot that are solved by themselves */
#define ${PREFIX}_ACTIVE_DOFS $active /* DOFs that move by themselves: not locked, and followers of none */

/* Names of the DOFs in joint_qd and of those in limits. */
extern const char *const ${prefix}_dof_names[${PREFIX}_DOFS];
extern const char *const ${prefix}_active_dof_names[${PREFIX}_ACTIVE_DOFS];

/* What holds a DOF back in a tick; negative at the lower end. */
enum {
$kinds
};

/* A controller, in memory of the caller. It may be copied like any struct, and needs no end. */
typedef union {
    unsigned char bytes[$size];
    double number;
    void *pointer;
} ${prefix}_controller;

/* Begin with ${prefix}_tick_defaults, which are those of the controller that was exported. */
typedef struct {
    uint32_t abi;                 /* ${PREFIX}_ABI */
    int32_t iterations;           /* most steps that a tick without a deadline tries, 0 and above */
    int32_t scale_direction;      /* 1: steps that limits do not allow are shortened as a whole; 0: joint by joint */
    double position_tolerance;    /* distance within which a target counts as met [m] */
    double orientation_tolerance; /* angle within which it does [rad] */
    /* Limits of the active DOFs; INFINITY where there is none. Those of their followers are counted in. */
    double limit_lower[${PREFIX}_ACTIVE_DOFS];  /* least position, with its margin [m or rad] */
    double limit_upper[${PREFIX}_ACTIVE_DOFS];  /* largest position */
    double velocity[${PREFIX}_ACTIVE_DOFS];     /* largest speed [m/s or rad/s] */
    double acceleration[${PREFIX}_ACTIVE_DOFS]; /* largest change of speed per second [m/s^2 or rad/s^2]; above 0 */
    double joint_step[${PREFIX}_ACTIVE_DOFS];   /* largest change of position in one tick [m or rad] */
    /* Data of the objectives. A row whose weight was 0 at the export is not there. */
$data
} ${prefix}_tick_settings;

extern const ${prefix}_tick_settings ${prefix}_tick_defaults;

typedef struct {
    const double *targets;  /* [ROBOTS][TARGETS][7]: position [m], unit quaternion; NULL: those of the tick before */
    const double *joint_q;  /* [ROBOTS][COORDINATES]: where the robot is; NULL: where the tick before has sent it */
    const double *joint_qd; /* [ROBOTS][DOFS]: its speeds in the tick before; NULL: what that has commanded */
    double dt;              /* length of the tick [s] */
    int64_t deadline_ns;    /* time of CLOCK_MONOTONIC at which to stop iterating; 0: none, the same answer each time */
} ${prefix}_tick_input;

/* The commands of a tick$each. */
typedef struct {
$results
} ${prefix}_tick_result;

/*
 * Makes a controller. It commands nothing before ${prefix}_controller_reset, or a first tick with joint_q, has said
 * where the robot is. `settings` may be NULL. Two threads never use one controller at once; each may have its own.
 */
int32_t ${prefix}_controller_init(${prefix}_controller *controller, const ${prefix}_tick_settings *settings);

/* Changes the settings, between two ticks. With a code other than OK they are as before. */
int32_t ${prefix}_controller_set(${prefix}_controller *controller, const ${prefix}_tick_settings *settings);

/* Says where the robot is, [ROBOTS][COORDINATES], NULL: in the middle; and how fast, [ROBOTS][DOFS], NULL: at rest. */
int32_t ${prefix}_controller_reset(${prefix}_controller *controller, const double *joint_q, const double *joint_qd);

/*
 * Goes one tick towards the targets and returns one of the codes above. A target that is not met is no error: see
 * `status`. Where numbers of a robot are not finite that is INVALID, and the robot brakes and keeps its place.
 * Before a reset, a tick without joint_q is NOT_RESET, and one whose joint_q are not finite is BAD_NUMBER: `status` is
 * then INVALID, nothing else of the result is written, and nothing is taken.
 * With a deadline it iterates until nothing more can be gained, or there is time for nothing but the answer; one step
 * is always tried.
 */
int32_t ${prefix}_tick(
    ${prefix}_controller *controller, const ${prefix}_tick_input *input, ${prefix}_tick_result *result);
""")
TICK_CONSTANTS = Template("""\
const char *const ${prefix}_dof_names[${PREFIX}_DOFS] = {
$dof_names
};
const char *const ${prefix}_active_dof_names[${PREFIX}_ACTIVE_DOFS] = {
$active_dof_names
};
const ${prefix}_tick_settings ${prefix}_tick_defaults = {
$defaults
};
static const double middle[${PREFIX}_COORDINATES] = {
    $middle
};
/* There is one entry more than is meant, for there are no empty arrays. */
static const int32_t idle_columns[] = $idle;
static const int32_t still_dofs[] = $still;
static const int32_t quaternion_columns[] = $quaternions;
static const int32_t follower_columns[][2] = $followers; /* its own, its leader's */
static const double follower_numbers[][2] = $follower_numbers; /* multiplier, offset */""")
TICK = Template("""\
typedef char ${prefix}_controller_has_its_size[sizeof(tick_frame) == sizeof(${prefix}_controller) ? 1 : -1];

enum { ROBOTS = ${PREFIX}_TICK_ROBOTS, COORDINATES = ${PREFIX}_COORDINATES, DOFS = ${PREFIX}_DOFS };

/* The controller, which may have been copied here; NULL if it was never made. */
static tick_frame *frame_of(${prefix}_controller *controller)
{
    tick_frame *f = (tick_frame *)controller;
    if (f == NULL || f->abi != ${PREFIX}_ABI) return NULL;
    if (f->self != f) place_tick(f);
    return f;
}

static void to_nan(double *values, size_t size)
{
    size_t k;
    for (k = 0; k < size / sizeof *values; ++k) values[k] = NAN;
}

/* The next tick has none before it. */
static void forget_last_tick(tick_frame *f)
{
$forget
}

static int32_t check_settings(const ${prefix}_tick_settings *settings)
{
    int32_t k;
    if (settings == NULL) return ${PREFIX}_BAD_ARGUMENT;
    if (settings->abi != ${PREFIX}_ABI) return ${PREFIX}_WRONG_ABI;
    if (settings->iterations < 0 || settings->iterations == INT32_MAX) return ${PREFIX}_BAD_ARGUMENT;
    if (settings->scale_direction != 0 && settings->scale_direction != 1) return ${PREFIX}_BAD_ARGUMENT;
    if (!(settings->position_tolerance > 0.0 && settings->position_tolerance <= DBL_MAX))
        return ${PREFIX}_BAD_ARGUMENT;
    if (!(settings->orientation_tolerance > 0.0 && settings->orientation_tolerance <= DBL_MAX))
        return ${PREFIX}_BAD_ARGUMENT;
    for (k = 0; k < ${PREFIX}_ACTIVE_DOFS; ++k) {
        if (!(settings->limit_lower[k] <= settings->limit_upper[k])) return ${PREFIX}_BAD_ARGUMENT;
        if (!(settings->velocity[k] >= 0.0 && settings->joint_step[k] >= 0.0)) return ${PREFIX}_BAD_ARGUMENT;
        if (!(settings->acceleration[k] > 0.0)) return ${PREFIX}_BAD_ARGUMENT;
    }
    return ${PREFIX}_OK;
}

static void take_settings(tick_frame *f, const ${prefix}_tick_settings *settings)
{
    int32_t k, brakes = 0;
    for (k = 0; k < ${PREFIX}_ACTIVE_DOFS; ++k) brakes |= settings->acceleration[k] <= DBL_MAX;
    if (f->numbers.settings[$BRAKES] != brakes) forget_last_tick(f);
    f->numbers.settings[$BRAKES] = brakes;
    f->numbers.settings[$SCALES] = settings->scale_direction;
    f->iterations = settings->iterations;
    f->numbers.numbers[$POSITION_TOLERANCE] = settings->position_tolerance;
    f->numbers.numbers[$ORIENTATION_TOLERANCE] = settings->orientation_tolerance;
$taken
}

static int32_t are_in_range(const double *values, size_t count)
{
    size_t k;
    for (k = 0; k < count; ++k)
        if (!(values[k] >= -$largest && values[k] <= $largest)) return 0;
    return 1;
}

/* Numbers of all quaternions of a configuration by their lengths; 0 if one has none. */
static int32_t to_unit_length(double *joint_q)
{
    size_t n, k;
    for (n = 0; n + 1 < sizeof quaternion_columns / sizeof *quaternion_columns; ++n) {
        double *q = joint_q + quaternion_columns[n];
        double length = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
        if (!(length >= $least_length)) return 0;
        for (k = 0; k < 4; ++k) q[k] /= length;
    }
    return 1;
}

/* Sets followers by their leaders. */
static void complete(double *joint_q)
{
    size_t n;
    for (n = 0; n + 1 < sizeof follower_columns / sizeof *follower_columns; ++n)
        joint_q[follower_columns[n][0]] =
            follower_numbers[n][0] * joint_q[follower_columns[n][1]] + follower_numbers[n][1];
}

int32_t ${prefix}_controller_reset(${prefix}_controller *controller, const double *joint_q, const double *joint_qd)
{
    tick_frame *f = frame_of(controller);
    double *q;
    size_t n;
    int32_t r;
    if (f == NULL) return ${PREFIX}_BAD_ARGUMENT;
    if (joint_q != NULL && !are_in_range(joint_q, ROBOTS * COORDINATES)) return ${PREFIX}_BAD_NUMBER;
    if (joint_qd != NULL && !are_in_range(joint_qd, ROBOTS * DOFS)) return ${PREFIX}_BAD_NUMBER;
    q = f->numbers.joint_q; /* which the next tick sets */
    for (r = 0; r < ROBOTS; ++r, q += COORDINATES) {
        memcpy(q, joint_q != NULL ? joint_q + r * COORDINATES : middle, sizeof middle);
        if (!to_unit_length(q)) return ${PREFIX}_BAD_NUMBER;
        complete(q);
    }
    memcpy(f->numbers.joint_q_out, f->numbers.joint_q, sizeof f->numbers.joint_q_out);
    memset(f->numbers.joint_qd_out, 0, sizeof f->numbers.joint_qd_out);
    if (joint_qd != NULL) memcpy(f->numbers.joint_qd_out, joint_qd, sizeof f->numbers.joint_qd_out);
    for (r = 0; r < ROBOTS; ++r)
        for (n = 0; n + 1 < sizeof still_dofs / sizeof *still_dofs; ++n)
            f->numbers.joint_qd_out[r * DOFS + still_dofs[n]] = 0.0;
    forget_last_tick(f);
    f->is_placed = 1;
    return ${PREFIX}_OK;
}

int32_t ${prefix}_controller_set(${prefix}_controller *controller, const ${prefix}_tick_settings *settings)
{
    tick_frame *f = frame_of(controller);
    int32_t code = f == NULL ? ${PREFIX}_BAD_ARGUMENT : check_settings(settings);
    if (code == ${PREFIX}_OK) take_settings(f, settings);
    return code;
}

int32_t ${prefix}_controller_init(${prefix}_controller *controller, const ${prefix}_tick_settings *settings)
{
    tick_frame *f = (tick_frame *)controller;
    int32_t code;
    if (settings == NULL) settings = &${prefix}_tick_defaults;
    code = f == NULL ? ${PREFIX}_BAD_ARGUMENT : check_settings(settings);
    if (code != ${PREFIX}_OK) return code;
    memset(f, 0, sizeof *f);
    f->abi = ${PREFIX}_ABI;
    place_tick(f);
    f->numbers.settings[$ROBOTS] = ROBOTS;
$unmeasured
    take_settings(f, settings);
    code = ${prefix}_controller_reset(controller, NULL, NULL);
    f->is_placed = 0; /* nobody has said yet where the robot is */
    return code;
}

/* Calls the kernels of all islands. */
static void launch(tick_frame *f, int32_t begin, int32_t finish, int32_t iterations)
{
    f->numbers.settings[$BEGIN] = begin;
    f->numbers.settings[$FINISH] = finish;
    f->numbers.settings[$ITERATIONS] = iterations;
$steps
}

static int32_t may_gain(const tick_frame *f)
{
    size_t k;
    for (k = 0; k < sizeof f->numbers.running / sizeof *f->numbers.running; ++k)
        if (f->numbers.running[k] != 0) return 1;
    return 0;
}

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + (int64_t)now.tv_nsec;
}

/*
 * Iterates until a time, or until nothing more can be gained; one step is always tried. It stops while there is time
 * for the answer, as long as that took before: the shorter of the last two, for now and then the machine does something
 * else.
 */
static void run_until(tick_frame *f, int64_t deadline_ns)
{
    int64_t answer_ns = f->answer_ns < f->answer_before_ns ? f->answer_ns : f->answer_before_ns;
    int64_t now, before, iteration_ns = 0;
    int32_t k;
    launch(f, 1, 0, 2);
    now = nanoseconds();
    for (k = 0; k < $iterations_max && may_gain(f); ++k) {
        if (now + iteration_ns + answer_ns >= deadline_ns) {
            f->numbers.settings[$CUT] = 1;
            break;
        }
        launch(f, 0, 0, 1);
        before = now;
        now = nanoseconds();
        iteration_ns = now - before;
    }
    launch(f, 0, 1, 0);
    f->numbers.settings[$CUT] = 0;
    f->answer_before_ns = f->answer_ns;
    f->answer_ns = nanoseconds() - now;
}

static void give(const tick_frame *f, ${prefix}_tick_result *result)
{
    int32_t r, k;
    for (r = 0; r < ROBOTS; ++r) {
        result->status$at = ${PREFIX}_CONVERGED;
        for (k = 0; k < ${PREFIX}_ISLANDS; ++k) {
            int32_t status = f->numbers.status[r * $width + k];
            if (status > result->status$at) result->status$at = status; /* the gravest */
        }
$given
    }
}

/* Takes where the robot is from the first tick; without it a command would be a jump to anywhere. */
static int32_t place(
    ${prefix}_controller *controller, const ${prefix}_tick_input *input, ${prefix}_tick_result *result)
{
    int32_t code = ${PREFIX}_NOT_RESET, r, k;
    if (input->joint_q != NULL) code = ${prefix}_controller_reset(controller, input->joint_q, NULL);
    for (r = 0; code != ${PREFIX}_OK && result != NULL && r < ROBOTS; ++r) {
        result->status$at = ${PREFIX}_INVALID;
        for (k = 0; k < ${PREFIX}_ISLANDS; ++k) result->island_status$at[k] = ${PREFIX}_INVALID;
    }
    return code;
}

int32_t ${prefix}_tick(
    ${prefix}_controller *controller, const ${prefix}_tick_input *input, ${prefix}_tick_result *result)
{
    tick_frame *f = frame_of(controller);
    int32_t lost[ROBOTS] = {0};
    size_t r, k;
    if (f == NULL || input == NULL || !(input->dt >= $dt_least && input->dt <= $dt_most)) return ${PREFIX}_BAD_ARGUMENT;
    if (!f->is_placed) {
        int32_t code = place(controller, input, result);
        if (code != ${PREFIX}_OK) return code;
    }
    f->numbers.numbers[$DT] = input->dt;
    if (input->targets != NULL && ${PREFIX}_TICK_TARGETS > 0)
        memcpy(f->numbers.targets, input->targets, sizeof f->numbers.targets);
    memcpy(f->numbers.joint_q, input->joint_q != NULL ? input->joint_q : f->numbers.joint_q_out,
        sizeof f->numbers.joint_q);
    memcpy(f->numbers.joint_qd, input->joint_qd != NULL ? input->joint_qd : f->numbers.joint_qd_out,
        sizeof f->numbers.joint_qd);
    for (r = 0; input->joint_q != NULL && r < ROBOTS; ++r) /* what no island moves is where it is */
        for (k = 0; k + 1 < sizeof idle_columns / sizeof *idle_columns; ++k) {
            double at = f->numbers.joint_q[r * COORDINATES + idle_columns[k]];
            if (are_in_range(&at, 1))
                f->numbers.joint_q_out[r * COORDINATES + idle_columns[k]] = at;
            else
                lost[r] = 1;
        }
    if (input->deadline_ns == 0)
        launch(f, 1, 1, f->iterations + 1);
    else
        run_until(f, input->deadline_ns);
    for (r = 0; r < ROBOTS; ++r)
        for (k = 0; lost[r] && k < ${PREFIX}_ISLANDS; ++k) f->numbers.status[r * $width + k] = ${PREFIX}_INVALID;
    if (result != NULL) give(f, result);
    return ${PREFIX}_OK;
}
""")
