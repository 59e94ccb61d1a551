"""The solver: two engines over one set of arrays, Levenberg-Marquardt per island, from many seeds.

caller's arrays -> InputArrays -> Problems (one line per problem) -> engine -> BestAttempts -> Verification -> IKResult
compiled engine: one generated kernel per island; the lanes of a packet take attempts (problem, seed) one by one
staged engine, for any objective: slots (attempts in flight) take seeds, and the best attempts are ranked and kept
  |  accepted configurations: forward kinematics -> residual blocks -> Jacobian -> normal equations -> assess
  |  trials: damped steps -> forward kinematics -> residual blocks -> accept
  +--- the whole iteration is recorded as a graph and replayed until no slot is running
"""
