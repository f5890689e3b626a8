// Names of tracks and of what is recorded about a span, in Chinese. They are apart from the messages of a report, since
// short ones such as `process {}` would be found in many sentences.

import { Catalog } from "../words/catalog";

const TRACKS = {
  steps: "步",
  "critical path": "关键路径",
  "core wait": "等核时间",
  "helper core wait": "辅助线程等核时间",
  "job CPU": "任务 CPU",
  "job memory": "任务内存",
  "other CPU": "其他进程 CPU",
  "system CPU": "系统 CPU",
  "the machine": "机器",
  "a kernel runs": "有内核在运行",
  "idle, by cause": "空闲，按原因",
  "feeder thread": "feeder 线程",
  "fetch loop": "取数循环",
  "stream {}": "流 {1}",
  "stream {}: launches that wait": "流 {1}：等待的启动",
  "GPU {} idle, by cause": "GPU {1} 空闲，按原因",
  "GPU {} stream {}": "GPU {1} 流 {2}",
  "GPU {} stream {}: launches that wait": "GPU {1} 流 {2}：等待的启动",
  "GPU {}: a kernel runs": "GPU {1}：有内核在运行",
  "GPU {}: SM efficiency (estimated)": "GPU {1}：SM 效率（估计）",
  "GPU {}: occupancy (estimated)": "GPU {1}：占用率（估计）",
  "memory: memory allocated": "已分配内存",
  "{}: memory allocated": "{1}：已分配内存",
  "{}: memory allocated since the recording began": "{1}：记录开始以来分配的内存",
  "{}: memory reserved": "{1}：已保留内存",
  "a loader: loading": "加载器：加载",
  "loader {}: loading": "加载器 {1}：加载",
  "thread {}": "线程 {1}",
  "process {}": "进程 {1}",
  "rank {}, process {}": "rank {1}，进程 {2}",
  "rank {}, Spans": "rank {1}，区段",
  "rank {}, Traces": "rank {1}，跟踪",
  "DataLoader worker {} of loader {}, process {}": "加载器 {2} 的 DataLoader 工作进程 {1}，进程 {3}",
  "rank {}, DataLoader worker {} of loader {}, process {}": "rank {1}，加载器 {3} 的 DataLoader 工作进程 {2}，进程 {4}",
};

const ARGUMENTS: Record<string, string> = {
  pid: "进程", thread: "线程", index: "序号", kind: "种类", correlation: "关联号", "external id": "外部编号", sequence: "序号",
  "forward thread": "前向线程", "input dims": "输入形状", "input types": "输入类型", "concrete inputs": "输入值", "call stack": "调用栈",
  "python id": "Python 编号", "python parent id": "Python 父编号", "module id": "模块编号", device: "设备", stream: "流", bytes: "字节",
  bandwidth: "带宽", grid: "网格", block: "线程块", registers: "寄存器", "shared memory": "共享内存", "blocks per sm": "每 SM 线程块",
  "warps per sm": "每 SM 线程束", occupancy: "占用率", collective: "集合通信", "collective sequence": "集合通信序号", group: "组",
  "group ranks": "组内 rank", "group size": "组大小", "group description": "组说明", "source rank": "源 rank", "destination rank": "目标 rank",
  dtype: "数据类型", "in elements": "输入元素数", "out elements": "输出元素数", "graph node": "图节点", "waits for record": "等待的事件记录",
  "waits for stream": "等待的流", step: "步", duration: "时长", class: "类别", activity: "活动", module: "模块", file: "文件", line: "行",
  function: "函数", next: "下一个", operator: "算子", "data wait": "数据等待", sync: "同步", host: "主机", launch: "启动", latency: "延迟",
  unexplained: "无法解释", unknown: "未知", lane: "轨道", worker: "工作进程", loader: "加载器", iterator: "迭代器", epoch: "epoch",
  batch: "批次", sample: "样本", stage: "阶段", cpu: "CPU 时间", "core wait": "等核时间", "process cpu": "进程 CPU 时间",
  "read file": "读取的文件", count: "次数", weight: "权重", failed: "失败",
};

const catalog = new Catalog({ messages: TRACKS, rules: {} });

export const chinese = { track: (name: string) => catalog.say(name), argument: (name: string) => ARGUMENTS[name] ?? name };
