// Which spans make a finding: those of some categories stand out in the timeline.

import type { Finding } from "../document/types";
import type { Category } from "./types";

const OF_RULE: Record<string, Category[]> = {
  "blocking-sync": ["sync", "runtime"],
  "allocator-churn": ["runtime"],
  "launch-bound": ["runtime"],
  "host-bound": ["runtime"],
  "exposed-communication": ["communication"],
  straggler: ["communication"],
  "pageable-copy": ["memory"],
  "small-kernels": ["compute"],
  "fp32-matmul": ["compute"],
  "single-tensor-optimizer": ["operator"],
};

/** Empty where no category of spans is what the finding is about. */
export function litBy(finding: Pick<Finding, "rule" | "cause" | "gain">): Category[] {
  const own = OF_RULE[finding.rule];
  if (own) return own;
  const pool = finding.gain?.pool ?? (finding.cause === "data-reading" ? "data-wait" : null);
  return pool === "data-wait" ? ["input", "waiting"] : [];
}
