//===- Passes.cpp - passes written in Rust, in MLIR's pass registry -------===//
//
// MLIR's C interface has passes without options that no textual pipeline can
// name. Here a definition, which lives as long as the process, becomes a
// registered pass with textual options. `src/pass.rs` has the other side.
//
//===----------------------------------------------------------------------===//

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Pass.h"
#include "mlir/CAPI/Support.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/Target/TargetMachine.h"

extern "C" {

/// An option of a pass. Its value is text, which `check` accepts or not.
struct HaloPassOption {
  MlirStringRef name;
  MlirStringRef description;
  MlirStringRef defaultValue;
};

struct HaloPassDefinition {
  MlirStringRef argument;
  MlirStringRef description;
  /// Name of the operations that the pass runs on; empty for all.
  MlirStringRef anchor;
  const HaloPassOption *options;
  intptr_t optionCount;
  /// Dialects whose operations the pass makes.
  const MlirStringRef *dialects;
  intptr_t dialectCount;
  /// Runs the pass with one value for each option; false if it fails.
  bool (*run)(const HaloPassDefinition *definition, MlirOperation operation,
              const MlirStringRef *values);
  /// Whether a value suits an option; if not, says why.
  bool (*check)(const HaloPassDefinition *definition, intptr_t option,
                MlirStringRef value, MlirStringCallback message, void *data);
};

} // extern "C"

namespace {

class RegisteredPass : public mlir::Pass {
public:
  RegisteredPass(mlir::TypeID id, const HaloPassDefinition *definition)
      : Pass(id, anchorOf(definition)), id(id), definition(definition) {
    for (intptr_t i = 0; i < definition->optionCount; ++i) {
      const HaloPassOption &option = definition->options[i];
      options.push_back(std::make_unique<Option<std::string>>(
          *this, unwrap(option.name),
          llvm::cl::desc(unwrap(option.description)),
          llvm::cl::init(unwrap(option.defaultValue).str())));
    }
  }

  llvm::StringRef getName() const override {
    return unwrap(definition->argument);
  }
  llvm::StringRef getArgument() const override {
    return unwrap(definition->argument);
  }
  llvm::StringRef getDescription() const override {
    return unwrap(definition->description);
  }

  llvm::LogicalResult
  initializeOptions(llvm::StringRef text,
                    llvm::function_ref<llvm::LogicalResult(const llvm::Twine &)>
                        report) override {
    if (failed(Pass::initializeOptions(text, report)))
      return llvm::failure();
    for (size_t i = 0; i < options.size(); ++i) {
      std::string message;
      auto append = [](MlirStringRef part, void *text) {
        static_cast<std::string *>(text)->append(part.data, part.length);
      };
      if (!definition->check(definition, i, wrap(options[i]->getValue()),
                             append, &message))
        return report(message);
    }
    return llvm::success();
  }

protected:
  bool canScheduleOn(mlir::RegisteredOperationName name) const override {
    return !getOpName() || name.getStringRef() == *getOpName();
  }

  llvm::LogicalResult initialize(mlir::MLIRContext *context) override {
    for (intptr_t i = 0; i < definition->dialectCount; ++i)
      if (!context->getOrLoadDialect(unwrap(definition->dialects[i])))
        return llvm::failure();
    return llvm::success();
  }

  void runOnOperation() override {
    llvm::SmallVector<MlirStringRef> values;
    for (auto &option : options)
      values.push_back(wrap(llvm::StringRef(option->getValue())));
    if (!definition->run(definition, wrap(getOperation()), values.data()))
      signalPassFailure();
  }

  std::unique_ptr<Pass> clonePass() const override {
    return std::make_unique<RegisteredPass>(id, definition);
  }

private:
  static std::optional<llvm::StringRef>
  anchorOf(const HaloPassDefinition *definition) {
    llvm::StringRef anchor = unwrap(definition->anchor);
    return anchor.empty() ? std::nullopt : std::optional(anchor);
  }

  mlir::TypeID id;
  const HaloPassDefinition *definition;
  std::vector<std::unique_ptr<Option<std::string>>> options;
};

} // namespace

extern "C" {

/// Registers a pass. No other thread may use the registry meanwhile.
void haloRegisterPass(const HaloPassDefinition *definition) {
  static mlir::TypeIDAllocator allocator;
  mlir::TypeID id = allocator.allocate();
  mlir::registerPass([id, definition]() -> std::unique_ptr<mlir::Pass> {
    return std::make_unique<RegisteredPass>(id, definition);
  });
}

/// Prints the IR before and after passes whose names are listed with commas,
/// or all passes for `*`.
void haloPassManagerEnableIRPrinting(MlirPassManager manager,
                                     MlirStringRef before, MlirStringRef after,
                                     bool onlyOnChange,
                                     MlirOpPrintingFlags flags) {
  auto filter = [](MlirStringRef text) {
    llvm::SmallVector<llvm::StringRef> parts;
    llvm::SplitString(unwrap(text), parts, ",");
    llvm::SmallVector<std::string> names(parts.begin(), parts.end());
    return [names](mlir::Pass *pass, mlir::Operation *) {
      return llvm::is_contained(names, pass->getArgument()) ||
             llvm::is_contained(names, "*");
    };
  };
  unwrap(manager)->enableIRPrinting(filter(before), filter(after),
                                    /*printModuleScope=*/true, onlyOnChange,
                                    /*printAfterOnlyOnFailure=*/false,
                                    llvm::errs(), *unwrap(flags));
}

/// Whether LLVM knows a processor, or a feature, of a target machine's target.
bool haloTargetKnows(const llvm::TargetMachine *machine, MlirStringRef name,
                     bool isProcessor) {
  const llvm::MCSubtargetInfo *info = machine->getMCSubtargetInfo();
  if (isProcessor)
    return info->isCPUStringValid(unwrap(name));
  return llvm::any_of(
      info->getAllProcessorFeatures(),
      [&](const auto &feature) { return unwrap(name) == feature.Key; });
}

/// Writes the IR and the pipeline to a file when a pass fails.
void haloPassManagerEnableReproducer(MlirPassManager manager,
                                     MlirStringRef path) {
  unwrap(manager)->enableCrashReproducerGeneration(unwrap(path));
}

} // extern "C"
